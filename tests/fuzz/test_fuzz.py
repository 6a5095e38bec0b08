"""The inputs that a search begins with are taken, and what earlier searches kept still holds. No fuzzer."""

from __future__ import annotations

import pytest

from springtide.wire.compression import Buffer
from springtide.wire.record_walk import RecordWalk, walk_records_in_python
from tests.fuzz import wire
from tests.fuzz.target import kept
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_are_right_are_taken_and_kept_ones_hold(name: str) -> None:
    target = TARGETS[name]
    assert [seed for seed in target.seeds() if not target.run(seed)] == []
    for each in kept(name):
        target.run(each)


def test_a_walk_over_records_that_is_not_the_references_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_keys(payload: Buffer, record_count: int, needs_keys: bool) -> RecordWalk:
        return walk_records_in_python(payload, record_count, False)

    monkeypatch.setattr(wire, "CHOSEN", wire.CHOSEN._replace(walk_records=without_keys))
    with pytest.raises(AssertionError):
        wire.check_batch(wire.batches()[0])
