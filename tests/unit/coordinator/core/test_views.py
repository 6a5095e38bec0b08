from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.views import TwoViews

Change = tuple[int, str, int | None]


def test_a_reader_sees_a_change_once_it_is_committed() -> None:
    views: TwoViews[str, int] = TwoViews()
    views.set("a", 1, 10)
    views.set("a", 2, 11)
    assert (views.latest("a"), views.committed("a")) == (2, None)
    views.commit(11)
    assert (views.latest("a"), views.committed("a")) == (2, 1)
    views.commit(12)
    assert (views.latest("a"), views.committed("a")) == (2, 2)


def test_what_is_undone_was_never_there() -> None:
    views: TwoViews[str, int] = TwoViews()
    views.set("a", 1, 0)
    views.commit(1)
    views.set("a", None, 1)
    views.set("b", 2, 1)
    views.undo(1)
    assert dict(views.latest_items()) == dict(views.committed_items()) == {"a": 1}


def test_all_readers_see_the_committed_value_while_others_are_under_way() -> None:
    views: TwoViews[str, int] = TwoViews()
    for value, offset in ((1, 0), (2, 1), (3, 2)):
        views.set("a", value, offset)
    views.commit(1)
    assert (dict(views.committed_items()), views.committed("a")) == ({"a": 1}, 1)


def test_what_is_committed_is_never_undone() -> None:
    views: TwoViews[str, int] = TwoViews()
    views.commit(5)
    views.commit(3)  # an older answer
    with pytest.raises(AssertionError):
        views.undo(4)


def folded(changes: list[Change]) -> dict[str, int]:
    state: dict[str, int] = {}
    for _, key, value in changes:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


KEYS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.none() | st.integers(0, 9), st.integers(0, 2)),
    st.tuples(st.just("commit"), st.floats(0, 1)),
    st.tuples(st.just("undo"), st.floats(0, 1)),
)


@given(st.lists(STEPS, max_size=60))
def test_both_views_are_what_the_records_that_count_make(steps: list[tuple[object, ...]]) -> None:
    """The model keeps every change, and makes each view anew from those that belong to it."""
    views: TwoViews[str, int] = TwoViews()
    changes: list[Change] = []
    committed = end = 0
    for step in steps:
        match step:
            case ("set", str(key), (int() | None) as value, int(gap)):
                # gap 0: a second change by the same record
                end = max(end + gap, committed, changes[-1][0] if changes else 0)
                views.set(key, value, end)
                changes.append((end, key, value))
            case ("commit", float(share)):
                committed += round(share * (end + 1 - committed)) if end >= committed else 0
                views.commit(committed)
            case ("undo", float(share)):
                cut = committed + round(share * max(end + 1 - committed, 0))
                views.undo(cut)
                changes = [change for change in changes if change[0] < cut]
                end = changes[-1][0] if changes else committed
        latest = folded(changes)
        stable = folded([change for change in changes if change[0] < committed])
        assert dict(views.latest_items()) == latest
        assert sorted(views.committed_items()) == sorted(stable.items())  # each key once
        assert {key: views.latest(key) for key in "abc"} == {key: latest.get(key) for key in "abc"}
        assert {key: views.committed(key) for key in "abc"} == {key: stable.get(key) for key in "abc"}
