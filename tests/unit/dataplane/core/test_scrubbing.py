"""What a scrub reads next, what may fill a hole, and what a rotten replica does until it is whole (5.7,
scrubbing)."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import Round
from dataplane.core.effects import (
    LEADERSHIP_CHANGED,
    NO_EFFECTS,
    STOP_FETCHING,
    BackOff,
    CheckAtRest,
    CopyDivergent,
    Effects,
    MendLog,
    Remark,
    ReportProblem,
    StartFetching,
)
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.leader import FETCH_REPEATS
from dataplane.core.log_port import RottenRange
from dataplane.core.results import LeaderAnswer
from dataplane.core.scrubbing import (
    MEND_BYTES_MAX,
    ScrubOrder,
    ScrubProgress,
    Unfit,
    committed_position,
    fitting_bytes,
    good_ranges,
    mend_position,
)
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import ProblemCode, ReplicaProblem
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import Compacted, EpochEnd
from tests.kit.dataplane.replica import TOPIC_ID, Bench, as_follower, batch_of, log_of, records_of
from tests.kit.memory.log import MemoryLog

ROT = RottenRange(0, 1, "CRC does not match")
A, B, C = ("a", 0), ("b", 0), ("c", 0)


def told(leader_epoch: int = 1, *, high_watermark: int = 0) -> ReportProblem:
    return ReportProblem(
        ReplicaProblem(
            topic_id=TOPIC_ID,
            partition=0,
            code=ProblemCode.ROTTEN,
            detail="CRC does not match; 1 ranges, records from 0 on",
            leader_epoch=LeaderEpoch(leader_epoch),
            first_offset=0,
            next_offset=1,
            high_watermark=high_watermark,
        )
    )


# --- what is read next -----------------------------------------------------------------------------------


def test_what_was_read_longest_ago_is_read_next_and_nothing_before_its_time() -> None:
    order = ScrubOrder(
        interval_ms=100,
        progress={
            A: ScrubProgress(0, covered_ms=950),
            B: ScrubProgress(0, covered_ms=890),
            C: ScrubProgress(0, covered_ms=880),
        },
    )
    assert order.due([A, B, C], 1_000) == [C, B]
    order.begin(C, 1_000)
    order.on_pass_over(C)
    assert order.due([A, B, C], 1_001) == [B]
    assert order.age_ms(1_001) == 111


def test_a_pass_that_an_earlier_life_began_goes_on_first_where_it_was() -> None:
    order = ScrubOrder(
        interval_ms=100,
        progress={A: ScrubProgress(0), B: ScrubProgress(0, covered_ms=950, started_ms=400, base_offset=7)},
    )
    assert order.due([A, B], 1_000) == [B, A]
    assert order.begin(B, 1_000) == ScrubProgress(0, covered_ms=950, started_ms=400, base_offset=7)
    order.on_pass_over(B)
    assert order.progress[B] == ScrubProgress(0, covered_ms=400)


def test_a_new_log_is_due_at_once_and_one_that_is_gone_is_forgotten() -> None:
    order = ScrubOrder(interval_ms=10_000, progress={A: ScrubProgress(0, covered_ms=990)})
    assert order.due([B], 1_000) == [B]
    assert order.progress == {B: ScrubProgress(1_000)}
    order.due([], 1_000)
    assert order.age_ms(5_000) == 0


def test_a_clock_that_went_back_makes_a_reading_due() -> None:
    order = ScrubOrder(interval_ms=100, progress={A: ScrubProgress(0, covered_ms=9_000)})
    assert order.due([A], 1_000) == [A]


# --- what may fill a hole --------------------------------------------------------------------------------

GOOD = records_of(log_of(1, 1, 2))
SIZE = len(GOOD) // 3
TWO = batch_of((b"one", b"two"), base_offset=1, leader_epoch=1)


def fill(
    records: bytes, *, size_bytes: int = SIZE, first_offset: int = 1, next_offset: int = 2
) -> tuple[int, int]:
    return fitting_bytes(
        memoryview(records),
        first_offset=first_offset,
        next_offset=next_offset,
        size_bytes=size_bytes,
        epoch_at=lambda offset: 2 if offset == 2 else 1,
    )


def test_the_very_batches_fill_a_hole_also_piece_by_piece() -> None:
    assert fill(GOOD[SIZE:]) == (SIZE, 2)
    assert fill(GOOD, first_offset=0, next_offset=3, size_bytes=3 * SIZE) == (3 * SIZE, 3)
    assert fill(GOOD[: 2 * SIZE], first_offset=0, next_offset=3, size_bytes=3 * SIZE) == (2 * SIZE, 2)


def test_what_follows_the_hole_is_none_of_it() -> None:
    """Compaction may have taken the batch before it, or the last offsets of the hole."""
    behind = GOOD[:SIZE] + GOOD[2 * SIZE :]
    assert fill(behind, first_offset=0, next_offset=2, size_bytes=2 * SIZE) == (SIZE, 1)
    assert fill(GOOD, first_offset=0, next_offset=2) == (SIZE, 1)


@pytest.mark.parametrize(("epoch", "fits"), [(-1, True), (0, False), (1, True), (2, False)])
def test_a_batch_is_of_the_epoch_that_the_logs_history_names_if_it_names_one(epoch: int, fits: bool) -> None:
    def filled() -> tuple[int, int]:
        return fitting_bytes(
            memoryview(GOOD[:SIZE]), first_offset=0, next_offset=1, size_bytes=SIZE, epoch_at=lambda _: epoch
        )

    if fits:
        assert filled() == (SIZE, 1)
        return
    with pytest.raises(Unfit):
        filled()


@pytest.mark.parametrize(
    ("records", "size_bytes"),
    [(GOOD[:SIZE] + bytes(SIZE), 3 * SIZE), (GOOD[: 2 * SIZE], SIZE + 1)],
    ids=["no batches behind the first", "too many bytes for its beginning"],
)
def test_what_is_wrong_behind_the_first_batch_makes_all_of_it_unfit(records: bytes, size_bytes: int) -> None:
    with pytest.raises(Unfit):
        fill(records, first_offset=0, next_offset=3, size_bytes=size_bytes)


def test_a_mend_and_what_is_committed_are_asked_for_behind_the_epoch_of_what_is_there() -> None:
    log = log_of(1, 2, 3)
    assert mend_position(log, 1, LeaderEpoch(5)) == FetchPosition(
        1, LeaderEpoch(1), LeaderEpoch(5), 0, MEND_BYTES_MAX
    )
    assert committed_position(log, 1, LeaderEpoch(5)) == FetchPosition(
        1, LeaderEpoch(1), LeaderEpoch(5), -1, MEND_BYTES_MAX
    )


@pytest.mark.parametrize(
    ("records", "size_bytes"),
    [
        (b"", SIZE),
        (GOOD, SIZE),
        (GOOD[2 * SIZE :], SIZE),
        (batch_of(base_offset=1, leader_epoch=2), SIZE),
        (GOOD[SIZE : 2 * SIZE - 1] + b"?", SIZE),
        (GOOD[SIZE : 2 * SIZE], SIZE + 1),
        (GOOD[SIZE : 2 * SIZE], SIZE - 1),
        (TWO, SIZE),
        (TWO, len(TWO)),
        (bytes(SIZE), SIZE),
    ],
    ids=["nothing", "before", "behind", "epoch", "CRC", "too few", "too many", "other", "beyond", "zeros"],
)
def test_nothing_else_fills_it(records: bytes, size_bytes: int) -> None:
    with pytest.raises(Unfit):
        fill(records, size_bytes=size_bytes)


# --- a rotten replica ------------------------------------------------------------------------------------


def rotten(broker_id: int, **changes: object) -> Bench:
    bench = Bench(broker_id, log=log_of(1, 1), high_watermark=2)
    bench.apply(**changes)
    bench.log.note_rotten(ROT)
    return bench


def test_a_rotten_follower_with_a_seat_tells_and_goes_on_fetching() -> None:
    bench = rotten(2)
    assert bench.replica.on_rotten() == (told(high_watermark=2), StartFetching(1, LeaderEpoch(1)))
    assert bench.replica.next_fetch() is not None


def test_without_a_seat_it_fetches_no_more_until_it_is_mended() -> None:
    bench = rotten(2)
    bench.replica.on_rotten()
    taken: Effects = bench.apply(isr=(1, 3), leader_epoch=2, partition_epoch=2)
    assert taken == (LEADERSHIP_CHANGED, STOP_FETCHING, MendLog(1, LeaderEpoch(2)))
    assert bench.replica.next_fetch() is None
    bench.log.rotten.clear()
    mended, last = bench.replica.on_mended()
    assert isinstance(mended, ReportProblem)
    assert (mended.problem.code, mended.problem.leader_epoch) == ("mended", -1)
    assert last == StartFetching(1, LeaderEpoch(2))
    assert bench.replica.next_fetch() is not None


GIVEN = LeaderAnswer()


def unfit(bench: Bench, *, leader_epoch: int = 1, committed: LeaderAnswer = GIVEN, **answer: Any) -> Effects:
    """Its leader gives it other records than those that have rotted here."""
    fetched = LeaderAnswer(**{"compacted": Compacted(0, 2), **answer})
    return as_follower(bench.replica).on_unfit(
        fetched, at_high_watermark=committed, leader_epoch=LeaderEpoch(leader_epoch)
    )


def test_what_rounds_went_over_at_the_leader_is_copied_again_once_what_is_good_is_set_aside() -> None:
    bench = rotten(2, isr=(1, 3))
    stopped, hold, remark = unfit(bench)
    assert isinstance(hold, CopyDivergent)
    assert (stopped, hold.first_offset, hold.next_offset, hold.cut_offset) == (STOP_FETCHING, 0, 2, 0)
    assert isinstance(remark, Remark)
    assert remark.is_warning
    assert bench.replica.role.standing_effects() == (stopped, hold)
    assert bench.log.log_end_offset == 2, "nothing is gone before the copy is durable"
    assert unfit(bench) == NO_EFFECTS, "it is on its way"
    done = as_follower(bench.replica).on_divergent_copied(hold.hold_id, error=None, now_ms=0)
    assert done[-1] == StartFetching(1, LeaderEpoch(1))
    assert (bench.log.log_end_offset, bench.high_watermark, bench.log.rotten) == (0, 0, [])


def test_what_rounds_went_over_here_is_copied_again_too() -> None:
    bench = rotten(2, isr=(1, 3))
    bench.log.rounds.on_pass(PlacedRound(1, Round(1, 0, 0, 0)), reaches=1)
    assert isinstance(unfit(bench, compacted=None)[1], CopyDivergent)


def test_a_leader_that_was_told_how_far_the_log_reaches_forgets_it_before_the_log_begins_anew() -> None:
    bench = rotten(2)
    assert bench.replica.next_fetch() is not None
    bench.apply(isr=(1, 3), partition_epoch=2)
    assert unfit(bench) == (told(high_watermark=2),)
    assert bench.log.log_end_offset == 2
    bench.apply(isr=(1, 3), leader_epoch=2, partition_epoch=3)
    assert isinstance(unfit(bench, leader_epoch=2)[1], CopyDivergent)


def test_a_log_that_can_not_note_what_its_leader_compacted_goes_offline() -> None:
    bench = rotten(2, isr=(1, 3))
    bench.log.failing = "broken"
    assert unfit(bench)
    assert bench.replica.role.name == "offline"


@pytest.mark.parametrize(
    "answer",
    [
        {"compacted": None},
        {"committed": LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE)},
        {"committed": LeaderAnswer(diverging=EpochEnd(1, 1))},
        {"leader_epoch": 0},
        {"diverging": EpochEnd(1, 1)},
        {"error": ErrorCode.CORRUPT_MESSAGE},
    ],
    ids=["no rounds", "too short", "lacks what is committed", "another epoch", "diverging", "an error"],
)
def test_a_log_begins_anew_for_no_other_reason(answer: dict[str, Any]) -> None:
    """Another leader may have the very records; or this leader lost some."""
    bench = rotten(2, isr=(1, 3))
    assert unfit(bench, **answer) == NO_EFFECTS
    assert bench.replica.role.standing_effects() == (STOP_FETCHING, MendLog(1, LeaderEpoch(1)))


def test_after_an_unclean_election_it_follows_a_leader_that_lacks_what_was_committed() -> None:
    bench = rotten(2, isr=(1,), leader_epoch=3, unclean_leader_epoch=3)
    lost = LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert isinstance(unfit(bench, leader_epoch=3, committed=lost)[1], CopyDivergent)


def test_a_rotten_replica_with_a_seat_does_not_begin_anew() -> None:
    assert unfit(rotten(2)) == NO_EFFECTS
    assert unfit(rotten(2, isr=(1,), elr=(2,), min_insync_replicas=2)) == NO_EFFECTS


def test_the_good_ranges_are_those_between_the_rotten_ones() -> None:
    holes = [RottenRange(2, 4, ""), RottenRange(6, 7, ""), RottenRange(7, 9, "")]
    assert list(good_ranges(holes, 0, 12)) == [(0, 2), (4, 6), (9, 12)]
    assert list(good_ranges(holes, 3, 8)) == [(4, 6)]
    assert list(good_ranges(holes, 9, 10)) == [(9, 10)]
    assert list(good_ranges(holes, 0, 1)) == [(0, 1)]
    assert list(good_ranges((), 1, 1)) == []


def test_it_tells_again_with_every_state_in_which_it_has_a_seat() -> None:
    """The controller may only now have another that can lead."""
    for seat in ({"isr": (1, 2)}, {"leader": 2, "isr": (2,), "elr": (1,), "min_insync_replicas": 2}):
        bench = rotten(1, isr=(1,))
        effects = bench.apply(partition_epoch=2, leader_epoch=2, **seat)
        assert told(2, high_watermark=2) in effects
        assert not any(isinstance(effect, MendLog) for effect in effects)


def test_a_rotten_leader_serves_what_is_good_and_refuses_the_rest() -> None:
    bench = rotten(1)
    bench.fetch(2, 2)
    bench.fetch(3, 2)
    assert bench.consume(0).error is ErrorCode.CORRUPT_MESSAGE
    assert bench.consume(1).error is ErrorCode.NONE
    assert bench.fetch(2, 0)[0].error is ErrorCode.CORRUPT_MESSAGE
    assert bench.replica.role.name == "leader"


def test_a_restarted_replica_tells_of_what_an_earlier_life_found() -> None:
    log = log_of(1, 1)
    log.note_rotten(ROT)
    bench = Bench(2, log=log, high_watermark=2)
    assert bench.apply(isr=(1, 3)) == (STOP_FETCHING, MendLog(1, LeaderEpoch(1)), told(high_watermark=2))


def test_a_follower_that_refuses_a_batch_tells_once() -> None:
    bench = Bench(2, log=log_of(1))
    bench.apply()
    bad = LeaderAnswer(high_watermark=1, records=batch_of(base_offset=1, leader_epoch=1)[:-1] + b"?")
    codes = [e.problem.code for e in bench.fetched(bad) if isinstance(e, ReportProblem)]
    assert codes == ["batch_refused"]
    assert bench.fetched(bad) == (BackOff(200, ErrorCode.CORRUPT_MESSAGE),)
    good = LeaderAnswer(high_watermark=1, records=batch_of(base_offset=1, leader_epoch=1))
    codes = [e.problem.code for e in bench.fetched(good) if isinstance(e, ReportProblem)]
    assert codes == ["batch_taken"]
    more = LeaderAnswer(high_watermark=2, records=batch_of(base_offset=2, leader_epoch=1))
    assert not [e for e in bench.fetched(more) if isinstance(e, ReportProblem)]


def suspicious(*, high_watermark: int) -> tuple[Bench, MemoryLog]:
    """A leader whose second record has a header that can't be one."""
    log = log_of(1, 1, 1)
    log.unreadable.add(1)
    bench = Bench(1, log=log, high_watermark=high_watermark)
    bench.apply(isr=(1, 2, 3))
    return bench, log


def test_damage_that_a_reader_meets_is_looked_at_by_the_scrub_and_the_replica_goes_on() -> None:
    bench, log = suspicious(high_watermark=2)
    result, effects = bench.fetch(2, 0)
    assert (result.error, effects) == (ErrorCode.CORRUPT_MESSAGE, (CheckAtRest(0),))
    assert bench.consume(0).error is ErrorCode.CORRUPT_MESSAGE
    assert (bench.replica.role.name, log.condemned) == ("leader", "")


def test_damage_above_the_high_watermark_still_ends_the_log() -> None:
    bench, log = suspicious(high_watermark=1)
    assert bench.fetch(2, 0)[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (bench.replica.role.name, log.condemned) == ("offline", "no batch here")


def test_a_leader_whose_batch_is_asked_for_again_and_again_looks_at_its_own_bytes() -> None:
    bench = Bench(1, log=log_of(1, 1))
    bench.apply()
    looks = [CheckAtRest(0) in bench.fetch(2, 0)[1] for _ in range(FETCH_REPEATS + 3)]
    assert looks == [False] * FETCH_REPEATS + [True, False, False]
