"""What is kept of rebalances is bounded, whatever clients do."""

from __future__ import annotations

from coordinator.core.groups.history import (
    CAUSES_KEPT_MAX,
    ID_CHARS_MAX,
    PAIRS_KEPT_MAX,
    PLACES_KEPT_MAX,
    REBALANCES_KEPT_MAX,
    UNITS_KEPT_MAX,
    CauseKind,
    GroupCause,
    NotedRebalance,
    RebalanceHistory,
)

JOINED = GroupCause(CauseKind.JOINED, "member a joined")


def test_of_a_rebalance_the_first_causes_pairs_and_places_are_kept() -> None:
    rebalance = NotedRebalance("g", 1, 1)
    for number in range(CAUSES_KEPT_MAX + 5):
        rebalance.note_cause(JOINED)
        rebalance.note_move(("t", number), "a", "b", number)
    for number in range(200):
        rebalance.note_move(("u", number), "a", f"{'x' * 1_000}{number}", 7)
    for number in range(200):
        rebalance.note_move(("u", number), "a", f"m{number}", 7)
    assert (len(rebalance.causes), rebalance.causes_total) == (CAUSES_KEPT_MAX, CAUSES_KEPT_MAX + 5)
    assert rebalance.moved == CAUSES_KEPT_MAX + 405
    assert len(rebalance.moves) == PAIRS_KEPT_MAX
    assert sum(len(moved.places) for moved in rebalance.moves.values()) == PLACES_KEPT_MAX
    assert rebalance.moves["a", "b"].unowned_ms_max == CAUSES_KEPT_MAX + 4
    assert max(len(after) for _, after in rebalance.moves) == ID_CHARS_MAX


def test_of_a_group_the_last_rebalances_are_kept() -> None:
    history = RebalanceHistory()
    for number in range(REBALANCES_KEPT_MAX + 3):
        history.end(history.begin("g", number, at_ms=5), 5)
    assert [one.generation_id for one in history.of("g")] == list(range(3, REBALANCES_KEPT_MAX + 3))
    assert len({one.began_ms for one in history.of("g")}) == REBALANCES_KEPT_MAX
    assert len(history.changed) == REBALANCES_KEPT_MAX


def test_ten_thousand_groups_take_no_more_than_the_bound() -> None:
    history = RebalanceHistory()
    for number in range(10_000):
        rebalance = history.begin(f"g{number}", 1, at_ms=number)
        for _ in range(5):
            rebalance.note_cause(JOINED)
        history.note(rebalance)
    kept = history.all()
    assert sum(one.units for one in kept) <= UNITS_KEPT_MAX
    assert len(kept) == UNITS_KEPT_MAX // 6
    assert history.last("g9999") is not None
    assert history.last("g0") is None, "the one that changed longest ago goes first"
    assert history.changed.keys() == set(kept)


def test_the_last_rebalance_of_each_group_comes_first() -> None:
    history = RebalanceHistory()
    for group_id in ("g", "h", "g"):
        history.end(history.begin(group_id, 1, at_ms=5), 5)
    assert [(one.group_id, one.began_ms) for one in history.all()] == [("h", 5), ("g", 6), ("g", 5)]


def test_a_group_that_was_deleted_is_forgotten() -> None:
    history = RebalanceHistory()
    history.begin("g", 1, at_ms=5)
    history.forget("g")
    history.forget("g")
    assert (history.all(), history.changed) == ([], {})
