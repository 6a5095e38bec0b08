"""Consumers read from a follower: committed records only, from one that knows itself in sync (2.11, reads
from followers)."""

from __future__ import annotations

import pytest

from dataplane.core.effects import HIGH_WATERMARK_MOVED, LEADERSHIP_CHANGED, BackOff
from dataplane.core.results import FetchResult, LeaderAnswer
from dataplane.core.transactions import IsolationLevel
from springtide.contract.partition_state import NO_LEADER
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction, EpochEnd
from springtide.wire.markers import Outcome, encode_marker
from springtide.wire.record_batch import decode_header
from springtide.wire.records import seal_batch
from tests.kit.dataplane.replica import Bench, as_follower, held_lease, leading, log_of, records_of

NOBODY = FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def in_sync(high_watermark: int = 3, **state: object) -> Bench:
    """Broker 2 follows broker 1 in leader epoch 5, holds five records, and its leader has agreed with it."""
    bench = Bench(2, log=log_of(1, 1, 5, 5, 5))
    bench.apply(**{"leader_epoch": 5, **state})
    bench.fetched(LeaderAnswer(high_watermark=high_watermark))
    return bench


def values(result: FetchResult) -> bytes:
    assert result.records is not None
    return b"".join(bytes(part) for part in result.records.parts)  # type: ignore[arg-type]


def test_i18_a_follower_gives_out_what_it_knows_to_be_committed_and_nothing_else() -> None:
    bench = in_sync(high_watermark=3)
    result = bench.consume(1, leader_epoch=5)
    assert (result.error, result.high_watermark, result.log_start_offset) == (ErrorCode.NONE, 3, 0)
    assert values(result) == records_of(log_of(1, 1, 5), 1)
    at_the_end = bench.consume(3, leader_epoch=5)
    assert (at_the_end.error, at_the_end.high_watermark, values(at_the_end)) == (ErrorCode.NONE, 3, b"")


@pytest.mark.parametrize("fetch_offset", [4, 5, 6, 2**40])
def test_beyond_its_high_watermark_it_does_not_know_whether_there_is_anything(fetch_offset: int) -> None:
    bench = in_sync(high_watermark=3)
    assert bench.consume(fetch_offset, leader_epoch=5) == FetchResult(ErrorCode.OFFSET_NOT_AVAILABLE)
    # Also for who read at the leader in an epoch of which nothing has come here.
    ahead = bench.consume(fetch_offset, leader_epoch=5, last_fetched_epoch=5)
    assert ahead == FetchResult(ErrorCode.OFFSET_NOT_AVAILABLE)


def test_below_its_log_start_it_says_so() -> None:
    bench = Bench(2, log=log_of(1, 1, start=7))
    bench.apply(leader_epoch=5)
    bench.fetched(LeaderAnswer(high_watermark=9, log_start_offset=7))
    assert bench.consume(6, leader_epoch=5) == FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=7)


def test_a_consumer_whose_history_parts_from_it_is_told_where() -> None:
    bench = in_sync(high_watermark=5)
    assert bench.consume(4, leader_epoch=5, last_fetched_epoch=3).diverging == EpochEnd(1, 2)
    assert bench.consume(4, leader_epoch=5, last_fetched_epoch=5).diverging is None


def test_who_states_no_leader_epoch_may_take_it_for_the_leader() -> None:
    assert in_sync().consume(0) == NOBODY


def test_another_leader_epoch_than_its_own_is_fenced_or_unknown() -> None:
    bench = in_sync()
    assert bench.consume(0, leader_epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert bench.consume(0, leader_epoch=6).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert bench.consume(0, leader_epoch=4, is_debugging=True).error is ErrorCode.FENCED_LEADER_EPOCH


def test_out_of_sync_it_is_not_read_from_whatever_it_holds() -> None:
    bench = in_sync()
    bench.apply(leader_epoch=5, partition_epoch=2, isr=(1, 3))
    assert bench.consume(0, leader_epoch=5) == NOBODY


def test_without_its_lease_it_is_not_read_from() -> None:
    """Nobody else would say that it has been taken out of the ISR."""
    bench = Bench(2, log=log_of(1), lease=held_lease(lease_ms=5_000))
    bench.apply(leader_epoch=5)
    bench.fetched(LeaderAnswer(high_watermark=1))
    assert bench.consume(0, leader_epoch=5).error is ErrorCode.NONE
    bench.now_ms = 5_000
    assert bench.consume(0, leader_epoch=5) == NOBODY


def test_in_each_leader_epoch_its_leader_must_have_agreed_first() -> None:
    """After an unclean election it may hold, below its high watermark, what its leader does not."""
    bench = in_sync(high_watermark=5)
    bench.apply(leader=3, leader_epoch=6, partition_epoch=2, unclean_leader_epoch=6)
    assert bench.consume(0, leader_epoch=6) == NOBODY
    bench.fetched(LeaderAnswer(error=ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert bench.consume(0, leader_epoch=6) == NOBODY
    bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 2)))  # it holds still until the suffix is aside
    assert bench.consume(0, leader_epoch=6) == NOBODY
    as_follower(bench.replica).on_divergent_copied(1, error=None, now_ms=bench.now_ms)
    assert bench.consume(0, leader_epoch=6) == NOBODY
    bench.fetched(LeaderAnswer(high_watermark=2))
    result = bench.consume(0, leader_epoch=6)
    assert (result.high_watermark, values(result)) == (2, records_of(log_of(1, 1)))


def test_without_a_leader_or_offline_it_is_not_read_from() -> None:
    bench = in_sync()
    bench.apply(leader=NO_LEADER, leader_epoch=6, partition_epoch=2)
    assert bench.consume(0, leader_epoch=6) == NOBODY
    bench.replica.go_offline("EIO")
    assert bench.consume(0, leader_epoch=6).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.consume(0, is_debugging=True).error is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_debugging_consumer_sees_what_this_replica_holds_but_never_past_its_high_watermark() -> None:
    bench = in_sync(high_watermark=3)
    bench.apply(leader_epoch=5, partition_epoch=2, isr=(1, 3))
    seen = bench.consume(0, is_debugging=True)
    assert (seen.high_watermark, values(seen)) == (3, records_of(log_of(1, 1, 5)))
    assert bench.consume(4, is_debugging=True).error is ErrorCode.OFFSET_NOT_AVAILABLE
    bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 0)))
    assert bench.replica.next_fetch() is None  # quarantined
    assert values(bench.consume(0, is_debugging=True)) == records_of(log_of(1, 1, 5))


def test_a_debugging_consumer_at_the_leader_is_a_consumer() -> None:
    bench = Bench(log=log_of(1, 1, 1), high_watermark=2)
    bench.apply(leader_epoch=2)
    assert bench.consume(0, is_debugging=True) == bench.consume(0)


def test_a_consumer_at_a_follower_leaves_no_trace() -> None:
    bench = in_sync()
    before = bench.replica.next_fetch(), bench.high_watermark
    for fetch_offset in (0, 3, 9):
        for is_debugging in (False, True):
            bench.consume(fetch_offset, leader_epoch=5, is_debugging=is_debugging)
    assert (bench.replica.next_fetch(), bench.high_watermark) == before


def test_who_waits_at_a_follower_hears_of_its_high_watermark_and_of_the_end_of_its_role() -> None:
    bench = in_sync(high_watermark=3)
    assert bench.fetched(LeaderAnswer(high_watermark=5)) == (HIGH_WATERMARK_MOVED,)
    assert bench.fetched(LeaderAnswer(high_watermark=5)) == ()
    effects = bench.apply(leader=3, leader_epoch=6, partition_epoch=2)
    assert effects[0] == LEADERSHIP_CHANGED


def test_a_read_that_fails_ends_the_log_as_everywhere() -> None:
    bench = in_sync()
    bench.log.failing = "EIO"
    assert bench.consume(0, leader_epoch=5) == FetchResult(ErrorCode.KAFKA_STORAGE_ERROR)


def test_a_follower_hides_what_is_open_or_aborted_as_its_leader_does() -> None:
    """KIP-392. It learns it from the bytes, and goes by its own high watermark."""
    leader = leading()
    leader.append()
    leader.begin(7)
    leader.begin(8)
    leader.end(7, outcome=Outcome.ABORT)
    bench = Bench(2)
    bench.apply()
    committed = IsolationLevel.READ_COMMITTED
    bench.fetched(LeaderAnswer(high_watermark=3, records=records_of(leader.log)))
    before = bench.consume(0, leader_epoch=1, isolation=committed)
    assert (before.last_stable_offset, before.aborted) == (1, None)
    assert before.records is not None
    assert before.records.next_offset == 1
    leader.end(8)
    bench.fetched(LeaderAnswer(high_watermark=5, records=records_of(leader.log, 4)))
    after = bench.consume(0, leader_epoch=1, isolation=committed)
    assert (after.last_stable_offset, after.aborted) == (5, (AbortedTransaction(7, 1),))
    leader.commit_all()
    assert after == leader.consume(0, isolation=committed)


def test_a_follower_refuses_a_marker_that_is_none() -> None:
    bench = Bench(2)
    bench.apply()
    good = encode_marker(
        Outcome.ABORT,
        coordinator_epoch=1,
        producer_id=7,
        producer_epoch=0,
        base_offset=0,
        leader_epoch=1,
        timestamp_ms=0,
    )
    header = decode_header(good)
    bad = seal_batch(header._replace(batch_length=49, record_count=0), b"")
    effects = bench.fetched(LeaderAnswer(records=bad))
    assert bench.log.log_end_offset == 0
    assert any(isinstance(effect, BackOff) for effect in effects)
    bench.fetched(LeaderAnswer(records=good))
    assert bench.log.log_end_offset == 1


def test_of_what_is_committed_a_follower_keeps_nothing() -> None:
    """Only reads by clients would have it forgotten, and there may be none."""
    leader, bench = leading(), Bench(2)
    bench.apply()
    for sequence in range(5):
        leader.begin(7, sequence=sequence)
        leader.end(7)
        records = memoryview(records_of(leader.log, bench.log.log_end_offset)).toreadonly()
        bench.fetched(LeaderAnswer(records=records, high_watermark=leader.log.log_end_offset))
        assert len(bench.log.producers.transactions.ended) == 1
