"""How long moves will take, by how long others took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.plan.documents import MoveItem, PlannedMoveItem
from pipeline.plan.eta import MoveWork, Past, calibrate, estimate, past_of, work_of

MB = 1_000_000
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def arrived(before: list[int], after: list[int], *, copied: int, begun_s: float, ended_s: float) -> MoveItem:
    return MoveItem(
        fate="moved",
        replicas_before=before,
        replicas_after=after,
        bytes=copied,
        begun_at=NOON + timedelta(seconds=begun_s),
        ended_at=NOON + timedelta(seconds=ended_s),
    )


def test_an_operation_is_what_its_busiest_broker_copied_and_how_many_were_on_their_way_at_once() -> None:
    moves = [
        arrived([1, 2], [3, 2], copied=10 * MB, begun_s=0, ended_s=4),
        arrived([1, 2], [3, 4], copied=40 * MB, begun_s=1, ended_s=9),
        arrived([1, 2], [2, 1], copied=0, begun_s=9, ended_s=10),
    ]
    assert past_of(moves, 5 * MB) == Past(MoveWork(3, 2, 30 * MB, 5 * MB), 10.0)


@pytest.mark.parametrize(
    "moves",
    [
        [],
        [MoveItem(fate="rolled_back", replicas_before=[1], replicas_after=[2], begun_at=NOON, ended_at=NOON)],
        [MoveItem(fate="moved", replicas_before=[1], replicas_after=[2])],
        [arrived([1], [2], copied=1, begun_s=3, ended_s=3)],
    ],
)
def test_what_did_not_arrive_or_has_no_times_teaches_nothing(moves: list[MoveItem]) -> None:
    assert past_of(moves, None) is None


def test_the_work_ahead_is_counted_in_the_same_way() -> None:
    moves = [
        PlannedMoveItem(topic="t", partition=n, replicas_before=[1, 2], replicas_after=after, bytes=copied)
        for n, (after, copied) in enumerate([([3, 2], 30 * MB), ([3, 4], 60 * MB), ([2, 1], 0)])
    ]
    assert work_of(moves, concurrent=2, throttle=None) == MoveWork(3, 2, 60 * MB)
    assert work_of(moves, concurrent=2, throttle=None).turns == 2


def past(moves: int, concurrent: int, busiest: int, *, overhead_s: float, speed: float) -> Past:
    work = MoveWork(moves, concurrent, busiest)
    return Past(work, work.turns * overhead_s + busiest / speed)


@given(
    st.floats(0.05, 5.0),
    st.floats(5e6, 1e9),
    st.lists(
        st.tuples(st.integers(1, 400), st.integers(1, 50), st.integers(0, 10**11)), min_size=4, max_size=12
    ),
    st.tuples(st.integers(1, 400), st.integers(0, 10**11)),
)
def test_operations_that_keep_to_the_law_are_predicted_within_a_tenth(
    overhead_s: float,
    speed: float,
    operations: list[tuple[int, int, int]],
    ahead: tuple[int, int],
) -> None:
    """With one that only had small partitions and one that only had large ones among them: otherwise nobody
    could tell the overhead from the speed."""
    known = [past(*one, overhead_s=overhead_s, speed=speed) for one in operations]
    known += [past(1000, 1, 0, overhead_s=overhead_s, speed=speed)] * len(known)
    known += [past(1, 1, 10**13, overhead_s=overhead_s, speed=speed)]
    found = calibrate(known)
    assert found is not None
    work = MoveWork(ahead[0], 10, ahead[1])
    truth = work.turns * overhead_s + ahead[1] / speed
    assert estimate(found, work).p50_s == pytest.approx(truth, rel=0.1)


def test_one_that_was_paused_over_night_spoils_nothing() -> None:
    known = [past(n, 5, n * 10 * MB, overhead_s=0.5, speed=50e6) for n in (10, 20, 40, 80, 160, 320)]
    slept = Past(known[2].work, known[2].seconds + 30_000)
    before, after = calibrate(known), calibrate([*known, slept])
    assert before is not None
    assert after is not None
    work = MoveWork(100, 5, 1000 * MB)
    assert estimate(after, work).p50_s == pytest.approx(estimate(before, work).p50_s, rel=0.05)
    assert estimate(after, work).p90_s > 10 * estimate(after, work).p50_s  # it may happen again


def test_a_throttle_bounds_the_speed_and_throttled_ones_do_not_teach_it() -> None:
    free = [past(n, 1, n * 100 * MB, overhead_s=0.0, speed=100e6) for n in (1, 2, 3)]
    throttled = [Past(MoveWork(1, 1, 100 * MB, 1 * MB), 100.0)] * 4
    found = calibrate([*free, *throttled])
    assert found is not None
    assert found.predict(MoveWork(1, 1, 1000 * MB)) == pytest.approx(10.0)
    assert found.predict(MoveWork(1, 1, 1000 * MB, 10 * MB)) == pytest.approx(100.0)
    assert found.predict(MoveWork(1, 1, 1000 * MB, 10**12)) == pytest.approx(10.0)


def test_the_late_tenth_is_told_and_nothing_past_teaches_nothing() -> None:
    found = calibrate([Past(MoveWork(1, 1, 100), seconds) for seconds in (1.0, 1.0, 1.0, 3.0)])
    assert found is not None
    eta = estimate(found, MoveWork(1, 1, 100))
    assert (round(eta.p50_s, 2), round(eta.p90_s, 2), eta.operations) == (1.0, 3.0, 4)
    assert eta.rounded()._asdict() == {"p50_s": 1.0, "p90_s": 3.0, "operations": 4}
    assert calibrate([]) is None
