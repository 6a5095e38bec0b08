"""Whom a leader answers, and with what."""

from __future__ import annotations

from dataplane.core.effects import NO_EFFECTS, CompleteProduce, CopyDivergent, ReportProblem
from dataplane.core.log_port import LogChanged, LogError, LogSlice, RottenRange, TimestampHit
from dataplane.core.results import (
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    EpochEndResult,
    FetchResult,
    LeaderAnswer,
    OffsetResult,
    TimestampLookup,
)
from dataplane.core.role import Offline
from dataplane.shell.lookups import look_up
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.fetch_response import EpochEnd
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.replica import WALL_MS, Bench, as_follower, batch_of, endpoint, leader_of, log_of
from tests.kit.memory.log import MemoryLog

EMPTY_AT = {n: LogSlice((), 0, n) for n in range(20)}


def find(bench: Bench, timestamp_ms: int, *, leader_epoch: int = -1) -> OffsetResult:
    """As the handler does it for a log in memory."""
    result = bench.replica.role.list_offset(
        timestamp_ms, leader_epoch=LeaderEpoch(leader_epoch), now_ms=bench.now_ms
    )
    if isinstance(result, TimestampLookup):
        result, effects = bench.replica.role.on_looked_up(
            result, look_up(bench.log, result), now_ms=bench.now_ms
        )
        assert effects == NO_EFFECTS
    assert isinstance(result, OffsetResult)
    return result


def log_end_of(bench: Bench, broker_id: int) -> int:
    lag = leader_of(bench).lag(bench.now_ms)
    assert lag is not None
    return next(f.log_end_offset for f in lag.followers if f.broker_id == broker_id)


def test_i7_a_fetch_of_an_older_or_newer_leader_epoch_is_refused_and_teaches_nothing() -> None:
    bench = Bench(log=log_of(1, 1))
    bench.apply(leader_epoch=3)
    assert bench.fetch(2, 2, leader_epoch=2)[0] == FetchResult(ErrorCode.FENCED_LEADER_EPOCH)
    assert bench.fetch(2, 2, leader_epoch=-1)[0] == FetchResult(ErrorCode.FENCED_LEADER_EPOCH)
    assert bench.fetch(2, 2, leader_epoch=4)[0] == FetchResult(ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert bench.consume(0, leader_epoch=2).error is ErrorCode.FENCED_LEADER_EPOCH
    assert bench.consume(0, leader_epoch=4).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert log_end_of(bench, 2) == -1


def test_i8_s4_a_late_fetch_of_an_earlier_incarnation_changes_nothing() -> None:
    bench = Bench(log=log_of(*[1] * 10), high_watermark=8)
    bench.apply(leader_epoch=2)
    bench.fetch(3, 10)
    bench.fetch(2, 8, broker_epoch=21)  # back already, with a lost tail, before anyone told us
    result, effects = bench.fetch(2, 10, broker_epoch=20)
    assert (result, effects) == (FetchResult(ErrorCode.STALE_BROKER_EPOCH), NO_EFFECTS)
    assert log_end_of(bench, 2) == 8
    assert bench.high_watermark == 8


def test_i8_what_an_incarnation_fetched_is_forgotten_when_another_is_registered() -> None:
    bench = Bench(log=log_of(1, 1))
    bench.apply(leader_epoch=2)
    bench.fetch(2, 2)
    bench.brokers[2] = endpoint(2, 21)
    leader_of(bench).on_broker_changed(2, now_ms=bench.now_ms)
    bench.fetch(3, 2)
    assert bench.high_watermark == 0
    assert bench.fetch(2, 2, broker_epoch=20)[0].error is ErrorCode.STALE_BROKER_EPOCH
    assert bench.fetch(2, 2, broker_epoch=-1)[0].error is ErrorCode.STALE_BROKER_EPOCH
    bench.fetch(2, 2, broker_epoch=21)
    assert bench.high_watermark == 2


def test_i17_nothing_is_learnt_from_a_fetch_that_fails() -> None:
    bench = Bench(log=log_of(1, 1, start=5))
    bench.apply(leader_epoch=2)
    stranger, _ = bench.fetch(9, 6, broker_epoch=90)
    below, _ = bench.fetch(2, 4, last_fetched_epoch=1)
    beyond, _ = bench.fetch(2, 9, last_fetched_epoch=-1)
    diverging, _ = bench.fetch(2, 9, last_fetched_epoch=1)
    unknown_epoch, _ = bench.fetch(2, 7, last_fetched_epoch=3)
    assert stranger == FetchResult(ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert below == FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=5)
    assert beyond == FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=5)
    assert diverging == FetchResult(ErrorCode.NONE, diverging=EpochEnd(1, 7))
    assert unknown_epoch == FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=5)
    assert log_end_of(bench, 2) == -1
    bench.log.failing = "EIO"
    assert bench.fetch(2, 6)[0] == FetchResult(ErrorCode.KAFKA_STORAGE_ERROR)


def test_a_fetcher_whose_log_is_no_prefix_learns_where_to_look_and_gets_no_data() -> None:
    bench = Bench(log=log_of(0, 0, 3, 3))
    bench.apply(leader_epoch=5)
    assert bench.fetch(2, 4, last_fetched_epoch=2)[0] == FetchResult(ErrorCode.NONE, diverging=EpochEnd(0, 2))
    assert bench.fetch(2, 3, last_fetched_epoch=0)[0] == FetchResult(ErrorCode.NONE, diverging=EpochEnd(0, 2))
    assert bench.consume(4, last_fetched_epoch=2).diverging == EpochEnd(0, 2)
    agreed, _ = bench.fetch(2, 2, last_fetched_epoch=0)
    assert agreed.records is not None
    assert agreed.records.next_offset == 4


def test_followers_read_to_the_end_and_consumers_to_the_high_watermark() -> None:
    bench = Bench(log=log_of(1, 1, 1), high_watermark=2)
    bench.apply(leader_epoch=2)
    result, _ = bench.fetch(2, 0)
    assert result.records is not None
    assert result.records.next_offset == 3
    consumed = bench.consume(0)
    assert consumed.high_watermark == 2
    assert consumed.records is not None
    assert consumed.records.next_offset == 2
    for offset in (2, 3):  # between the high watermark and the end: nothing yet, and no error
        assert bench.consume(offset) == FetchResult(ErrorCode.NONE, 2, 0, EMPTY_AT[offset])
    assert bench.consume(4).error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_i18_a_consumer_inside_an_uncommitted_batch_reads_nothing_of_it() -> None:
    bench = Bench()
    bench.apply()
    bench.append(records=5)
    assert bench.consume(3) == FetchResult(ErrorCode.NONE, 0, 0, EMPTY_AT[3])


def test_i19_no_latest_offset_before_the_new_leader_can_prove_it() -> None:
    bench = Bench(2, log=log_of(1, 1, 1), high_watermark=1)
    bench.apply(leader=2, leader_epoch=2)

    def latest() -> OffsetResult:
        return find(bench, LATEST_TIMESTAMP)

    assert latest() == OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE)
    bench.fetch(1, 3)
    bench.fetch(3, 2)
    assert latest() == OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE)
    assert find(bench, MAX_TIMESTAMP) == OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE)
    bench.fetch(3, 3)
    assert latest() == OffsetResult(ErrorCode.NONE, 3, leader_epoch=LeaderEpoch(2))


def test_offsets_by_kind_and_by_time() -> None:
    bench = Bench(log=log_of(1, 1, start=4), high_watermark=6)
    bench.apply(leader_epoch=2)

    assert find(bench, EARLIEST_TIMESTAMP) == OffsetResult(ErrorCode.NONE, 4, leader_epoch=LeaderEpoch(1))
    assert find(bench, 0) == OffsetResult(ErrorCode.NONE, 4, WALL_MS, LeaderEpoch(1))
    assert find(bench, 2**50) == OffsetResult(ErrorCode.NONE)
    assert find(bench, MAX_TIMESTAMP) == OffsetResult(ErrorCode.NONE, 4, WALL_MS, LeaderEpoch(1))
    assert find(bench, LATEST_TIERED_TIMESTAMP) == OffsetResult(ErrorCode.NONE)
    assert find(bench, -6) == OffsetResult(ErrorCode.NONE)
    assert find(bench, -7) == OffsetResult(ErrorCode.UNSUPPORTED_VERSION)
    assert find(bench, -1, leader_epoch=1) == OffsetResult(ErrorCode.FENCED_LEADER_EPOCH)


def test_what_a_lookup_found_counts_only_in_the_leadership_that_asked() -> None:
    bench = Bench(log=log_of(1, 1, 1), high_watermark=3)
    bench.apply(leader_epoch=2)
    lookup = bench.replica.role.list_offset(0, leader_epoch=LeaderEpoch(2), now_ms=bench.now_ms)
    assert lookup == TimestampLookup(0, LeaderEpoch(2), 3)
    hit = TimestampHit(0, WALL_MS, LeaderEpoch(1))
    bench.apply(leader_epoch=3, partition_epoch=2)
    assert bench.replica.role.on_looked_up(lookup, hit, now_ms=bench.now_ms) == (
        OffsetResult(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        NO_EFFECTS,
    )


def test_a_lookup_whose_log_changed_under_it_is_made_again() -> None:
    bench = Bench(log=log_of(1, 1, 1), high_watermark=3)
    bench.apply(leader_epoch=2)
    lookup = bench.replica.role.list_offset(0, leader_epoch=LeaderEpoch(2), now_ms=bench.now_ms)
    assert isinstance(lookup, TimestampLookup)
    bench.delete(2)
    for found in (TimestampHit(0, WALL_MS, LeaderEpoch(1)), LogChanged("cut")):
        assert bench.replica.role.on_looked_up(lookup, found, now_ms=bench.now_ms) == (lookup, NO_EFFECTS)
    assert bench.replica.role.on_looked_up(lookup, None, now_ms=bench.now_ms)[0] == OffsetResult(
        ErrorCode.NONE
    )


def test_a_lookup_that_finds_a_broken_disk_takes_the_replica_offline() -> None:
    bench = Bench(log=log_of(1, 1, 1), high_watermark=3)
    bench.apply(leader_epoch=2)
    lookup = bench.replica.role.list_offset(0, leader_epoch=LeaderEpoch(2), now_ms=bench.now_ms)
    assert isinstance(lookup, TimestampLookup)
    result, effects = bench.replica.role.on_looked_up(lookup, LogError("EIO"), now_ms=bench.now_ms)
    assert result == OffsetResult(ErrorCode.KAFKA_STORAGE_ERROR)
    assert any(isinstance(effect, ReportProblem) for effect in effects)
    assert isinstance(bench.replica.role, Offline)


def test_where_an_epoch_ends() -> None:
    bench = Bench(log=log_of(1, 1, 4))
    bench.apply(leader_epoch=6)

    def end(leader_epoch: int, *, current: int = 6) -> EpochEndResult:
        return bench.replica.role.offset_for_leader_epoch(
            current_leader_epoch=current, leader_epoch=LeaderEpoch(leader_epoch), now_ms=bench.now_ms
        )

    assert end(1) == EpochEndResult(ErrorCode.NONE, LeaderEpoch(1), 2)
    assert end(3) == EpochEndResult(ErrorCode.NONE, LeaderEpoch(1), 2)
    assert end(6) == EpochEndResult(ErrorCode.NONE, LeaderEpoch(6), 3)
    assert end(7) == EpochEndResult(ErrorCode.NONE, LeaderEpoch(-1), -1)
    assert end(1, current=5) == EpochEndResult(ErrorCode.FENCED_LEADER_EPOCH)


def test_a_follower_serves_nobody() -> None:
    bench = Bench(2)
    bench.apply()
    assert bench.fetch(3, 0)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.consume(0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.append()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.delete(-1)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.replica.leading is None


# A machine that was put back to an earlier moment (3.10, a host that goes back).


def test_s54_a_follower_that_asks_for_less_than_it_has_had_is_told_of() -> None:
    bench = Bench()
    bench.apply()
    bench.append(records=3)
    bench.fetch(2, 3)
    _, effects = bench.fetch(2, 1)
    problems = [each.problem for each in effects if isinstance(each, ReportProblem)]
    assert [(each.code, each.broker_id, each.leader_epoch) for each in problems] == [
        ("went_back", 2, bench.replica.leader_epoch)
    ]
    assert not [each for each in bench.fetch(2, 1)[1] if isinstance(each, ReportProblem)]


def test_s54_a_new_incarnation_or_one_without_a_seat_may_begin_where_it_likes() -> None:
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.append(records=3)
    bench.fetch(2, 3)
    bench.fetch(3, 3)
    effects = bench.fetch(2, 0, broker_epoch=21)[1] + bench.fetch(3, 0)[1]
    assert not [each for each in effects if isinstance(each, ReportProblem)]


def test_s55_a_leader_whose_replica_has_more_of_its_own_epoch_gives_up() -> None:
    bench = Bench()
    bench.apply()
    bench.append("a", records=3)
    epoch = bench.replica.leader_epoch
    result, effects = bench.fetch(2, 5, last_fetched_epoch=epoch)
    assert result == FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert effects[0] == CompleteProduce(("a",), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert isinstance(effects[1], ReportProblem)
    assert (effects[1].problem.code, effects[1].problem.broker_id) == ("went_back", -1)
    assert bench.fetch(3, 0) == (FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), NO_EFFECTS)
    assert bench.append(acks=1)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.consume(0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def mark_of(log: MemoryLog, *, partition_epoch: int = 1) -> LogMark:
    headers = log.last_batches(log.log_end_offset)
    assert headers
    return LogMark(partition_epoch, -1, tuple((each.base_offset, each.crc) for each in headers))


def log_with(*values: bytes, leader_epoch: int = 1) -> MemoryLog:
    log = MemoryLog()
    for value in values:
        data = batch_of([value], base_offset=log.log_end_offset, leader_epoch=leader_epoch)
        log.append((decode_header(data),), (data,), now_ms=0)
    return log


def test_s65_a_leader_whose_replica_has_other_records_of_its_own_epoch_gives_up() -> None:
    """It has written as much as it had lost; offsets and epochs say that nothing is wrong."""
    bench = Bench(log=log_with(b"a", b"x", b"y"))
    bench.apply()
    result, effects = bench.fetch(2, 3, mark=mark_of(log_with(b"a", b"b", b"c")))
    assert result == FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    (problem,) = [each.problem for each in effects if isinstance(each, ReportProblem)]
    assert (problem.code, problem.broker_id) == ("went_back", -1)
    assert bench.append(acks=1)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.high_watermark == 0


def test_s65_a_fork_of_an_earlier_epoch_is_cut_where_it_begins() -> None:
    """The last batch is the same one, sent again at the same offset; the one before it is another."""
    bench = Bench(log=log_with(b"a", b"b", b"c"))
    bench.apply(leader_epoch=2)
    result, effects = bench.fetch(2, 3, last_fetched_epoch=1, mark=mark_of(log_with(b"a", b"x", b"c")))
    assert (result.error, result.diverging) == (ErrorCode.NONE, EpochEnd(1, 1))
    assert not effects
    # A batch that ends elsewhere.
    other = log_with(b"a")
    data = batch_of([b"b", b"c"], base_offset=1, leader_epoch=1)
    other.append((decode_header(data),), (data,), now_ms=0)
    assert bench.fetch(2, 3, last_fetched_epoch=1, mark=mark_of(other))[0].diverging == EpochEnd(1, 1)
    follower = Bench(2, log=log_with(b"a", b"x", b"c"))
    follower.apply(leader_epoch=2)
    held = follower.fetched(LeaderAnswer(diverging=result.diverging))
    (aside,) = [each for each in held if isinstance(each, CopyDivergent)]
    as_follower(follower.replica).on_divergent_copied(aside.hold_id, error=None, now_ms=0)
    assert as_follower(follower.replica).log_mark() == mark_of(log_with(b"a"))
    assert bench.fetch(2, 1, last_fetched_epoch=1, mark=mark_of(log_with(b"a")))[0].records is not None


def test_s65_equal_logs_and_what_cannot_be_told_are_served() -> None:
    bench = Bench(log=log_with(b"a", b"b", b"c"))
    bench.apply()
    for mark in (
        mark_of(bench.log),
        mark_of(log_with(b"a", b"b")),
        LogMark(1, -1, ()),
        None,
    ):
        end = 2 if mark is not None and len(mark.batches) == 2 else 3
        result, effects = bench.fetch(2, end, mark=mark)
        assert (result.error, result.diverging) == (ErrorCode.NONE, None)
        assert not [each for each in effects if isinstance(each, ReportProblem) and end == 3]
    bench.log.note_rotten(RottenRange(1, 2, "a bit"))
    assert bench.fetch(3, 3, mark=mark_of(log_with(b"a", b"x", b"c")))[0].diverging is None


def test_s82_a_leader_that_has_forgotten_what_it_told_to_be_deleted_gives_up() -> None:
    """The follower holds nothing any more that could be compared, and the leader has written anew."""
    follower = Bench(2, log=log_with(b"a", b"b", b"c"))
    follower.apply()
    follower.fetched(LeaderAnswer(high_watermark=3, log_start_offset=3))
    assert follower.log.log_start_offset == 3
    mark = as_follower(follower.replica).log_mark()
    assert mark == LogMark(1, 3, ())
    for log in (log_with(b"a", b"x", b"y"), log_with(b"a", b"x", b"y", b"z")):
        bench = Bench(log=log)
        bench.apply()
        bench.append("a")
        result, effects = bench.fetch(2, 3, mark=mark)
        assert result == FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        (problem,) = [each.problem for each in effects if isinstance(each, ReportProblem)]
        assert (problem.code, problem.broker_id) == ("went_back", -1)
        assert bench.high_watermark == 0
    honest = Bench(log=log_with(b"a", b"b", b"c", b"d"))
    honest.apply()
    honest.log.advance_log_start(3)
    assert honest.fetch(2, 3, mark=mark)[0].error is ErrorCode.NONE


def test_s82_what_an_earlier_leader_told_to_be_deleted_proves_nothing() -> None:
    """The present one need not have heard of it (4.9, deleting records)."""
    follower = Bench(2, log=log_with(b"a", b"b", b"c"))
    follower.apply()
    follower.fetched(LeaderAnswer(high_watermark=3, log_start_offset=3))
    follower.apply(leader_epoch=2, partition_epoch=2)
    mark = as_follower(follower.replica).log_mark()
    assert mark == LogMark(2, -1, ())
    bench = Bench(log=log_with(b"a", b"b", b"c"))
    bench.apply(leader_epoch=2, partition_epoch=2)
    assert bench.fetch(2, 3, last_fetched_epoch=1, mark=mark)[0].error is ErrorCode.NONE


def test_s82_what_a_mend_was_told_may_be_an_earlier_leaders_word_and_is_not_marked() -> None:
    follower = Bench(2, log=log_with(b"a", b"b", b"c"), high_watermark=3)
    follower.apply()
    as_follower(follower.replica).on_deleted_at_leader(2)
    assert follower.log.log_start_offset == 2
    mark = as_follower(follower.replica).log_mark()
    assert mark is not None and mark.log_start_offset == -1


def test_s83_a_fork_is_seen_above_the_log_start_of_a_leader_that_has_less_to_compare() -> None:
    """Of the marked batches the leader has deleted the first ones."""
    for start, values, parted in (
        (1, (b"a", b"b", b"x", b"y"), 2),
        (2, (b"a", b"b", b"x", b"d"), 2),
        (2, (b"a", b"x", b"c", b"y"), 3),
        (3, (b"a", b"x", b"y", b"d"), None),
        (4, (b"a", b"x", b"y", b"z"), None),
    ):
        bench = Bench(log=log_with(b"a", b"b", b"c", b"d"))
        bench.log.advance_log_start(start)
        bench.apply(leader_epoch=2)
        result, _ = bench.fetch(2, 4, last_fetched_epoch=1, mark=mark_of(log_with(*values)))
        assert result.error is ErrorCode.NONE
        assert result.diverging == (None if parted is None else EpochEnd(1, parted)), (start, values)


def test_s83_batches_of_other_sizes_part_where_the_leader_still_knows_that_they_do() -> None:
    bench = Bench(log=log_with(b"a", b"b", b"c", b"d"))
    bench.log.advance_log_start(2)
    bench.apply(leader_epoch=2)
    fork = log_with(b"a")
    data = batch_of([b"x", b"y", b"z"], base_offset=1, leader_epoch=1)
    fork.append((decode_header(data),), (data,), now_ms=0)
    assert bench.fetch(2, 4, last_fetched_epoch=1, mark=mark_of(fork))[0].diverging == EpochEnd(1, 2)
    whole = Bench(log=fork)
    whole.log.advance_log_start(2)  # within the batch
    whole.apply(leader_epoch=2)
    assert whole.fetch(2, 4, last_fetched_epoch=1, mark=mark_of(fork))[0].diverging is None
    other = log_with(b"a", b"b", b"c", b"d")
    assert whole.fetch(2, 4, last_fetched_epoch=1, mark=mark_of(other))[0].diverging == EpochEnd(1, 1)


def test_s66_a_follower_that_knows_a_later_in_sync_set_is_not_counted_until_the_leader_does() -> None:
    bench = Bench(log=log_with(b"a"))
    bench.apply(isr=(1, 2))
    ahead = mark_of(bench.log, partition_epoch=2)
    assert bench.fetch(2, 1, mark=ahead) == (FetchResult(ErrorCode.UNKNOWN_LEADER_EPOCH), NO_EFFECTS)
    assert bench.high_watermark == 0
    bench.apply(isr=(1, 2), partition_epoch=2)
    bench.fetch(2, 1, mark=ahead)
    assert bench.high_watermark == 1
