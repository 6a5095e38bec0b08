"""Questions to the transaction coordinator: how many there may be, and which one is spent."""

from __future__ import annotations

import pytest

from dataplane.core import guards
from dataplane.core.guards import Guards


def test_there_is_a_bound_on_questions_and_those_that_nobody_asks_again_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guards, "GUARDS_MAX", 2)
    asked = Guards()
    first = asked.ask(1, 0, now_ms=0)
    assert first is not None and asked.ask(1, 0, now_ms=10_000) is first
    assert asked.ask(2, 0, now_ms=50_000) is not None
    assert len(asked) == 2
    for now_ms in (50_001, 60_000, 61_000, 69_999, 70_000, 70_998):
        assert asked.ask(3, 0, now_ms=now_ms) is None, "none is old, or it has just been looked for"
    assert asked.ask(3, 0, now_ms=70_999) is not None
    assert not asked.holds(first, producer_id=1, producer_epoch=0)
    assert len(asked) == 2


def test_a_question_of_a_later_epoch_stays_when_an_earlier_one_is_spent() -> None:
    asked = Guards()
    old, new = asked.ask(1, 0, now_ms=0), asked.ask(1, 1, now_ms=0)
    assert old is not None and new is not None
    asked.spend(1, 0)
    assert (old.is_spent, new.is_spent, len(asked)) == (True, False, 1)
    assert asked.holds(new, producer_id=1, producer_epoch=1)
