"""How a follower copies, and how it cuts: by leader epochs, never silently, never below what is committed."""

from __future__ import annotations

import pytest

from dataplane.core.effects import (
    HIGH_WATERMARK_MOVED,
    LEADERSHIP_CHANGED,
    LOG_START_MOVED,
    NO_EFFECTS,
    PERSIST_EPOCHS,
    STOP_FETCHING,
    BackOff,
    CopyDivergent,
    Effects,
    Remark,
    RemarkKind,
    ReportProblem,
    StartFetching,
)
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.log_port import RottenRange
from dataplane.core.results import LeaderAnswer
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.lag_report import ProblemCode, ReplicaProblem
from springtide.contract.partition_state import NO_LEADER
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd
from tests.kit.dataplane.replica import TOPIC_ID, Bench, as_follower, batch_of, log_of, records_of
from tests.kit.memory.log import MemoryLog


def following(log: MemoryLog | None = None, *, high_watermark: int = 0, **state: object) -> Bench:
    """Broker 2 follows broker 1 in leader epoch 5."""
    bench = Bench(2, log=log, high_watermark=high_watermark)
    bench.apply(**{"leader_epoch": 5, **state})
    return bench


def diverging(leader_epoch: int, end_offset: int) -> LeaderAnswer:
    return LeaderAnswer(diverging=EpochEnd(leader_epoch, end_offset))


def epochs_of(log: MemoryLog) -> list[int]:
    return [header.leader_epoch for header, _ in log.batches]


def agree(leader: Bench, follower: Bench) -> None:
    """Let the follower fetch from the leader until it has everything."""
    for _ in range(50):
        position = follower.replica.next_fetch()
        assert position is not None
        fetch = ReplicaFetch(2, BrokerEpoch(20), position, max_bytes=1 << 20)
        result, _ = leader.replica.role.on_replica_fetch(fetch, now_ms=0)
        records = b"" if result.records is None else b"".join(bytes(p) for p in result.records.parts)  # type: ignore[arg-type]
        effects = follower.fetched(
            LeaderAnswer(
                error=result.error,
                high_watermark=result.high_watermark,
                log_start_offset=result.log_start_offset,
                diverging=result.diverging,
                records=records,
            )
        )
        for effect in effects:
            if isinstance(effect, CopyDivergent):
                as_follower(follower.replica).on_divergent_copied(effect.hold_id, error=None, now_ms=0)
        if result.error is ErrorCode.NONE and result.diverging is None and not records:
            return
    raise AssertionError("no end to it")


def test_records_are_written_verbatim_and_the_high_watermark_follows() -> None:
    leader_log = log_of(1, 1, 5)
    bench = following(log_of(1))
    assert bench.replica.next_fetch() == FetchPosition(1, LeaderEpoch(1), LeaderEpoch(5), 0)
    records = records_of(leader_log, 1)
    cut_off = batch_of(base_offset=3, leader_epoch=5)[:40]
    effects = bench.fetched(LeaderAnswer(high_watermark=2, records=records + cut_off))
    assert effects == (HIGH_WATERMARK_MOVED,)
    assert records_of(bench.log) == records_of(leader_log)
    assert bench.high_watermark == 2
    assert bench.replica.next_fetch() == FetchPosition(3, LeaderEpoch(5), LeaderEpoch(5), 0)


def test_the_high_watermark_never_passes_the_own_end_nor_goes_back() -> None:
    bench = following(log_of(1, 1), high_watermark=1)
    bench.fetched(LeaderAnswer(high_watermark=9))
    assert bench.high_watermark == 2
    bench.fetched(LeaderAnswer(high_watermark=0))
    assert bench.high_watermark == 2


def test_an_answer_counts_only_for_the_epoch_and_offset_it_was_asked_for() -> None:
    bench = following(log_of(1))
    answer = LeaderAnswer(high_watermark=1, records=records_of(log_of(1, 1), 1))
    assert bench.fetched(answer, leader_epoch=4) == NO_EFFECTS
    assert bench.fetched(answer, fetch_offset=0) == NO_EFFECTS
    assert bench.log.log_end_offset == 1
    assert bench.high_watermark == 0
    bench.fetched(answer)
    assert bench.fetched(answer, fetch_offset=1) == NO_EFFECTS  # delivered twice
    assert bench.log.log_end_offset == 2


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (batch_of(base_offset=0, leader_epoch=1), "offset 0 where 2 was due"),
        (batch_of(base_offset=2, leader_epoch=6), "a batch of epoch 6 at offset 2"),
        (batch_of(base_offset=2, leader_epoch=0), "a batch of epoch 0 at offset 2"),
        (batch_of(base_offset=2, leader_epoch=1)[:-1] + b"?", "a batch with a wrong CRC at offset 2"),
        (
            batch_of(base_offset=2, leader_epoch=1) + batch_of(base_offset=2, leader_epoch=1),
            "offset 2 where 3 was due",
        ),
    ],
)
def test_what_is_no_continuation_of_the_log_is_not_written(records: bytes, why: str) -> None:
    bench = following(log_of(1, 1))
    back_off, problem, note = bench.fetched(LeaderAnswer(high_watermark=2, records=records))
    assert back_off == BackOff(200, ErrorCode.CORRUPT_MESSAGE)
    assert isinstance(problem, ReportProblem)
    assert (problem.problem.code, problem.problem.first_offset) == ("batch_refused", 2)
    assert note == Remark(RemarkKind.BATCH_REFUSED, f"leader 1 sent {why}", is_warning=True)
    assert bench.log.log_end_offset == 2
    assert bench.high_watermark == 0
    assert bench.apply(leader_epoch=5)[-1] == problem  # another controller may have taken over


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_l6_after_a_leaders_error_the_follower_tries_again(error: ErrorCode) -> None:
    bench = following(log_of(1))
    assert bench.fetched(LeaderAnswer(error=error)) == (BackOff(200, error),)
    assert bench.replica.next_fetch() == FetchPosition(1, LeaderEpoch(1), LeaderEpoch(5), 0)


# Where the logs part.


def test_i14_a_divergent_suffix_is_written_aside_durably_before_it_is_cut() -> None:
    bench = following(log_of(1, 1, 4, 4), high_watermark=2)
    hold = CopyDivergent(
        hold_id=1, first_offset=2, next_offset=4, leader_epoch=LeaderEpoch(5), high_watermark=2, cut_offset=2
    )
    assert bench.fetched(diverging(1, 3)) == (STOP_FETCHING, hold)
    assert bench.log.log_end_offset == 4
    assert bench.replica.next_fetch() is None
    assert bench.fetched(LeaderAnswer(high_watermark=4)) == NO_EFFECTS  # nothing passes while it holds
    assert as_follower(bench.replica).on_divergent_copied(1, error=None, now_ms=0) == (
        ReportProblem(
            ReplicaProblem(
                topic_id=TOPIC_ID,
                partition=0,
                code=ProblemCode.DIVERGENT,
                detail="written aside, then cut, to follow leader 1",
                leader_epoch=LeaderEpoch(5),
                first_offset=2,
                next_offset=4,
                high_watermark=2,
            )
        ),
        StartFetching(1, LeaderEpoch(5)),
    )
    assert bench.replica.next_fetch() == FetchPosition(2, LeaderEpoch(1), LeaderEpoch(5), 0)


def test_a_copy_that_fails_holds_the_truncation_and_is_asked_for_again() -> None:
    bench = following(log_of(1, 4))
    _, hold = bench.fetched(diverging(1, 1))
    (problem,) = as_follower(bench.replica).on_divergent_copied(1, error="disk full", now_ms=bench.now_ms)
    assert isinstance(problem, ReportProblem)
    assert problem.problem.code == "storage_error"
    assert bench.log.log_end_offset == 2
    assert bench.tick(4_999) == NO_EFFECTS
    assert bench.tick(1) == (hold,)
    as_follower(bench.replica).on_divergent_copied(1, error=None, now_ms=bench.now_ms)
    assert bench.log.log_end_offset == 1


def test_a_truncation_of_an_earlier_epoch_is_off_even_if_its_copy_arrives() -> None:
    bench = following(log_of(1, 4))
    bench.fetched(diverging(1, 1))
    bench.apply(leader=3, leader_epoch=6, partition_epoch=2)
    assert as_follower(bench.replica).on_divergent_copied(1, error=None, now_ms=0) == NO_EFFECTS
    assert bench.log.log_end_offset == 2
    assert bench.replica.next_fetch() == FetchPosition(2, LeaderEpoch(4), LeaderEpoch(6), 0)


def test_a_late_answer_to_what_was_asked_before_a_cut_cuts_nothing_more() -> None:
    """The first of two equal requests was answered, the log was cut, and a record of the new epoch took the
    place of the one that is gone: leader epoch and offset are those of the second answer still."""
    bench = following(log_of(4))
    asked = bench.replica.next_fetch()
    assert asked is not None
    bench.fetched(diverging(3, 0))
    as_follower(bench.replica).on_divergent_copied(1, error=None, now_ms=0)
    bench.fetched(LeaderAnswer(records=records_of(log_of(5))))
    assert (bench.log.log_end_offset, epochs_of(bench.log)) == (1, [5])
    late = as_follower(bench.replica).on_fetched(diverging(3, 0), asked=asked, now_ms=0, wall_ms=0)
    assert (late, epochs_of(bench.log)) == (NO_EFFECTS, [5])


def test_i14_s8_fast_double_failover_converges_epoch_by_epoch() -> None:
    """KIP-279: A and B wrote different records at the same offsets in epochs 1 and 2; C leads epoch 3."""
    leader = Bench(1, log=log_of(0, 0, 1))
    leader.apply(leader_epoch=3)
    follower = Bench(2, log=log_of(0, 0, 2, 2))
    follower.apply(leader_epoch=3)
    agree(leader, follower)
    assert records_of(follower.log) == records_of(leader.log)


def test_i14_s8_many_alternating_epochs_converge() -> None:
    leader = Bench(1, log=log_of(0, 1, 1, 3, 3, 5, 7))
    leader.apply(leader_epoch=9)
    follower = Bench(2, log=log_of(0, 1, 2, 2, 4, 6, 6, 8))
    follower.apply(leader_epoch=9)
    agree(leader, follower)
    assert records_of(follower.log) == records_of(leader.log)


def test_i14_s9_an_epoch_in_which_nobody_wrote_is_cut_without_touching_a_record() -> None:
    leader_log, follower_log = log_of(1, 1), log_of(1, 1)
    follower_log.begin_leader_epoch(3)  # led once, wrote nothing (KAFKA-10706)
    leader_log.begin_leader_epoch(4)
    leader = Bench(1, log=leader_log)
    leader.apply(leader_epoch=5)
    follower = following(follower_log, high_watermark=2)
    assert follower.replica.next_fetch() == FetchPosition(2, LeaderEpoch(3), LeaderEpoch(5), 0)
    agree(leader, follower)
    assert follower.replica.next_fetch() == FetchPosition(2, LeaderEpoch(1), LeaderEpoch(5), 0)
    assert follower.high_watermark == 2


def test_s55_an_epoch_that_a_follower_led_before_it_went_back_is_cut_before_it_fetches() -> None:
    """It wrote in epoch 1 from offset 4 on, went back to offset 2 and led epoch 1 again from there. By epochs
    and offsets alone its log is a prefix of the leader's; batches of epoch 0 would be refused for ever."""
    for follower_log in (log_of(0, 0), log_of(0, 0, 1)):
        follower_log.begin_leader_epoch(1)
        assert follower_log.epochs.latest_start_offset == 2
        leader = Bench(1, log=log_of(0, 0, 0, 0, 1, 1))
        leader.apply(leader_epoch=3)
        follower = Bench(2, log=follower_log)
        follower.apply(leader_epoch=3)
        agree(leader, follower)
        assert records_of(follower.log) == records_of(leader.log)
        assert follower.log.epochs.entries == leader.log.epochs.entries[:-1]


def test_s10_a_follower_that_missed_an_epoch_of_the_same_leader_truncates() -> None:
    """KAFKA-7164."""
    bench = Bench(2, log=log_of(1, 1))
    bench.apply(leader_epoch=1)
    bench.apply(leader_epoch=3, partition_epoch=3)  # same leader; epoch 2 was not heard of
    assert bench.replica.next_fetch() == FetchPosition(2, LeaderEpoch(1), LeaderEpoch(3), 0)
    effects = bench.fetched(diverging(1, 1))
    assert isinstance(effects[1], CopyDivergent)


def quarantine(cut: int, end: int, high_watermark: int, why: str, *, leader_epoch: int = 5) -> Effects:
    return (
        STOP_FETCHING,
        ReportProblem(
            ReplicaProblem(
                topic_id=TOPIC_ID,
                partition=0,
                code=ProblemCode.QUARANTINED,
                detail=f"{why}; log left as it is",
                leader_epoch=LeaderEpoch(leader_epoch),
                first_offset=cut,
                next_offset=end,
                high_watermark=high_watermark,
            )
        ),
    )


def kept_whole_of_leader_3() -> Effects:
    """Whoever holds the cut for a copy has stopped fetching, too, but is about to cut."""
    return quarantine(1, 3, 3, "leader 3 diverges below the high watermark", leader_epoch=6)


def test_i15_s1_a_follower_refuses_to_cut_below_its_high_watermark() -> None:
    bench = following(log_of(1, 1, 1), high_watermark=3)
    told = quarantine(0, 3, 3, "leader 1 diverges below the high watermark")
    assert bench.fetched(diverging(1, 0)) == told
    assert bench.log.log_end_offset == 3
    assert bench.replica.next_fetch() is None
    for partition_epoch in (1, 2):  # a controller that took over sends what stands, and has heard of nothing
        assert bench.apply(leader_epoch=5, partition_epoch=partition_epoch) == told
    # Another leader may hold it all: the log is as it was, so trying again is safe.
    effects = bench.apply(leader=3, leader_epoch=6, partition_epoch=3)
    assert effects == (LEADERSHIP_CHANGED, StartFetching(3, LeaderEpoch(6)))


def test_i15_a_newer_unclean_mark_allows_it_and_the_records_are_kept_aside() -> None:
    bench = following(log_of(1, 1, 4), high_watermark=3, unclean_leader_epoch=5)
    effects = bench.fetched(diverging(1, 1))
    assert effects[1] == CopyDivergent(
        hold_id=1, first_offset=1, next_offset=3, leader_epoch=LeaderEpoch(5), high_watermark=3, cut_offset=1
    )
    as_follower(bench.replica).on_divergent_copied(1, error=None, now_ms=0)
    assert bench.log.log_end_offset == 1
    assert bench.high_watermark == 1


def test_i15_a_mark_older_than_the_log_allows_nothing() -> None:
    bench = following(log_of(1, 1, 4), high_watermark=3, unclean_leader_epoch=4)
    assert bench.fetched(diverging(1, 1)) == quarantine(1, 3, 3, "leader 1 diverges below the high watermark")
    assert bench.replica.next_fetch() is None
    assert bench.log.log_end_offset == 3


def test_i15_a_mark_has_its_effect_once() -> None:
    bench = following(log_of(1, 1, 1), high_watermark=3, unclean_leader_epoch=5)
    bench.fetched(LeaderAnswer(high_watermark=3))  # the unclean leader agrees with this log
    bench.apply(leader=3, leader_epoch=6, partition_epoch=2, unclean_leader_epoch=5)
    assert bench.fetched(diverging(1, 1)) == kept_whole_of_leader_3()
    assert bench.replica.next_fetch() is None
    assert bench.log.log_end_offset == 3


def test_i15_a_mark_has_its_effect_once_even_if_the_process_starts_again() -> None:
    log = log_of(1, 1, 1)
    before = following(log, high_watermark=3, unclean_leader_epoch=5)
    assert before.fetched(LeaderAnswer(high_watermark=3)) == (PERSIST_EPOCHS,)
    assert before.fetched(LeaderAnswer(high_watermark=3)) == NO_EFFECTS  # once
    log.recover()
    bench = Bench(2, log=log, high_watermark=3)
    bench.apply(leader=3, leader_epoch=6, partition_epoch=2, unclean_leader_epoch=5)
    assert bench.fetched(diverging(1, 1)) == kept_whole_of_leader_3()
    assert bench.replica.next_fetch() is None
    assert bench.log.log_end_offset == 3


def test_i15_who_leads_under_a_mark_has_seen_its_effect() -> None:
    """Else its epoch would vanish with a truncation, and the mark be newer than its log again."""
    log = log_of(1, 1, 1)
    leader = Bench(2, log=log, high_watermark=3)
    leader.apply(leader=2, leader_epoch=5, unclean_leader_epoch=5)
    log.recover()
    bench = Bench(2, log=log, high_watermark=3)
    bench.apply(leader=3, leader_epoch=6, partition_epoch=2, unclean_leader_epoch=5)
    assert bench.fetched(diverging(1, 3)) == NO_EFFECTS  # epoch 5, in which it wrote nothing, goes
    assert bench.fetched(diverging(1, 1)) == kept_whole_of_leader_3()
    assert bench.replica.next_fetch() is None
    assert bench.log.log_end_offset == 3


def test_a_log_that_saw_no_mark_writes_nothing_about_any() -> None:
    bench = following(log_of(1, 1))
    assert bench.fetched(LeaderAnswer(high_watermark=2)) == (HIGH_WATERMARK_MOVED,)
    assert bench.fetched(LeaderAnswer(high_watermark=2)) == NO_EFFECTS
    assert bench.log.epochs.reconciled == -1


def test_s55_what_it_has_of_its_leaders_own_epoch_it_cuts_for_nobody() -> None:
    """Only that leader wrote it: the leader went back, and what it forgot may have been acknowledged."""
    bench = following(log_of(1, 5, 5), high_watermark=1)
    effects = bench.fetched(diverging(5, 2))
    assert [each.problem.code for each in effects if isinstance(each, ReportProblem)] == ["quarantined"]
    assert bench.log.log_end_offset == 3
    assert bench.replica.next_fetch() is None


def test_i16_s34_a_diverging_answers_watermarks_are_not_looked_at() -> None:
    bench = following(log_of(1, 1, 4), high_watermark=1)
    bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 2), high_watermark=3, log_start_offset=2, records=b"x"))
    assert bench.high_watermark == 1
    assert bench.log.log_start_offset == 0


@pytest.mark.parametrize("end", [EpochEnd(1, 9), EpochEnd(1, -1), EpochEnd(-1, -1)])
def test_a_divergence_that_makes_no_sense_cuts_nothing(end: EpochEnd) -> None:
    bench = following(log_of(1, 1))
    effects = bench.fetched(LeaderAnswer(diverging=end))
    assert isinstance(effects[0], BackOff)
    assert bench.log.log_end_offset == 2


# Log start.


OUT_OF_RANGE_AT_7 = LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=7)


def test_s30_below_the_leaders_log_start_the_log_begins_anew_there_with_its_high_watermark() -> None:
    bench = following(log_of(1, 1), high_watermark=2)
    assert bench.fetched(OUT_OF_RANGE_AT_7) == (LOG_START_MOVED,)
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.high_watermark) == (7, 7, 7)
    assert bench.replica.next_fetch() == FetchPosition(
        7, LeaderEpoch(-1), LeaderEpoch(5), 0, wants_producers=True
    )
    assert bench.stored(7) == (StartFetching(1, LeaderEpoch(5)),)
    assert bench.replica.next_fetch() == FetchPosition(
        7, LeaderEpoch(-1), LeaderEpoch(5), 7, wants_producers=True
    )
    # Elected at once: it serves from there, and nothing is out of range (KAFKA-9491).
    bench.apply(leader=2, leader_epoch=6, partition_epoch=2)
    assert bench.consume(7).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("mark", "first_offset"),
    [(-1, 1), (5, 0)],
    ids=["what was not known to be committed", "under a mark, all of it"],
)
def test_what_a_log_below_the_leaders_start_may_alone_have_held_is_written_aside_first(
    mark: int, first_offset: int
) -> None:
    """The leader has forgotten the epochs of these offsets, so nobody can say whether the records match."""
    bench = following(log_of(1, 1, 1), high_watermark=1, unclean_leader_epoch=mark)
    hold = CopyDivergent(
        hold_id=1,
        first_offset=first_offset,
        next_offset=3,
        leader_epoch=LeaderEpoch(5),
        high_watermark=1,
        cut_offset=7,
    )
    assert bench.fetched(OUT_OF_RANGE_AT_7) == (STOP_FETCHING, hold)
    assert (bench.log.log_end_offset, bench.replica.next_fetch()) == (3, None)
    problem, again = as_follower(bench.replica).on_divergent_copied(1, error=None, now_ms=0)
    assert isinstance(problem, ReportProblem)
    assert (problem.problem.code, problem.problem.first_offset, problem.problem.next_offset) == (
        "divergent",
        first_offset,
        3,
    )
    assert again == StartFetching(1, LeaderEpoch(5))
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.high_watermark) == (7, 7, 7)
    assert bench.replica.next_fetch() == FetchPosition(
        7, LeaderEpoch(-1), LeaderEpoch(5), 0, wants_producers=True
    )


def test_ahead_of_the_leader_in_the_same_epochs_is_corruption_not_a_reason_to_cut() -> None:
    bench = following(log_of(1, 1, 1))
    out_of_range = LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=0)
    assert bench.fetched(out_of_range) == quarantine(0, 3, 0, "ahead of leader 1 in the same epochs")
    assert bench.log.log_end_offset == 3


def test_an_out_of_range_without_a_log_start_is_asked_again() -> None:
    bench = following(log_of(1))
    assert bench.fetched(LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE)) == (
        BackOff(200, ErrorCode.OFFSET_OUT_OF_RANGE),
    )


def test_i26_the_log_start_follows_the_leaders_but_not_past_the_own_high_watermark() -> None:
    bench = following(log_of(1, 1, 1), high_watermark=1)
    bench.fetched(LeaderAnswer(high_watermark=2, log_start_offset=3))
    assert (bench.log.log_start_offset, bench.high_watermark) == (2, 2)


def test_what_is_rotten_and_was_deleted_by_the_leader_is_let_go() -> None:
    """It is not in sync, so it does not fetch before it is whole; its leader has nothing to mend it with."""
    bench = following(log_of(1, 1, 1), high_watermark=2, isr=(1,))
    bench.log.note_rotten(RottenRange(0, 1, "rotten"))
    assert bench.replica.next_fetch() is None
    assert as_follower(bench.replica).on_deleted_at_leader(3) == (LOG_START_MOVED,)
    assert (bench.log.log_start_offset, bench.log.rotten) == (2, [])  # not past the own high watermark
    assert StartFetching(1, LeaderEpoch(5)) in bench.replica.on_mended()


def test_a_log_that_begins_inside_a_batch_takes_the_whole_batch() -> None:
    bench = following()
    bench.fetched(LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=1))
    whole = batch_of([b"v"] * 3, leader_epoch=2)
    bench.fetched(LeaderAnswer(records=whole, high_watermark=3, log_start_offset=1))
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.high_watermark) == (1, 3, 3)


def test_without_a_leader_it_waits() -> None:
    bench = following(leader=NO_LEADER)
    assert bench.replica.next_fetch() is None
    effects = bench.apply(leader=3, leader_epoch=6, partition_epoch=2)
    assert effects == (LEADERSHIP_CHANGED, StartFetching(3, LeaderEpoch(6)))


def test_a_storage_error_while_following_takes_it_offline() -> None:
    bench = following(log_of(1))
    bench.log.failing = "EIO"
    effects = bench.fetched(LeaderAnswer(records=records_of(log_of(1, 1), 1)))
    assert effects[:2] == (LEADERSHIP_CHANGED, STOP_FETCHING)
    assert bench.replica.next_fetch() is None
