"""DeleteRecords, and elections after it (I37, what a client deleted stays deleted)."""

from __future__ import annotations

import pytest

from dataplane.core.effects import LOG_START_MOVED, NO_EFFECTS, CompleteDeletion, StartFetching
from dataplane.core.results import DeletionResult, LeaderAnswer
from dataplane.core.watermarks import StoredLogStart
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import NO_LEADER, Shard, WriterId
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.replica import Bench, endpoint, held_lease, leader_of, log_of

WAITING = DeletionResult(ErrorCode.NONE, is_waiting=True)


def done(low_watermark: int, *waiters: object) -> CompleteDeletion:
    return CompleteDeletion(waiters or ("d",), DeletionResult(ErrorCode.NONE, low_watermark))


def failed(error: ErrorCode) -> CompleteDeletion:
    return CompleteDeletion(("d",), DeletionResult(error))


def leading(**state: object) -> Bench:
    """Broker 1 leads in leader epoch 2; four records of epoch 1 are committed."""
    bench = Bench(log=log_of(1, 1, 1, 1), high_watermark=4)
    bench.apply(**{"leader_epoch": 2, **state})
    return bench


def test_i26_records_are_deleted_only_below_the_high_watermark() -> None:
    bench = leading(isr=(1,), min_insync_replicas=1)
    bench.append(acks=1)
    for before_offset in (6, -2, 2**62):
        assert bench.delete(before_offset) == (DeletionResult(ErrorCode.OFFSET_OUT_OF_RANGE), NO_EFFECTS)
    assert bench.log.log_start_offset == 0
    assert bench.delete(3) == (WAITING, (LOG_START_MOVED,))
    assert bench.stored(3) == (done(3),)
    assert bench.delete(2) == (DeletionResult(ErrorCode.NONE, 3), NO_EFFECTS)
    bench.delete(-1)
    assert bench.log.log_start_offset == bench.high_watermark == 5


def test_a_shards_log_is_deleted_from_by_nobody() -> None:
    """Its records are the state of groups: without its beginning it tells something else."""
    bench = leading(shard=Shard(owner=1001, writer=WriterId(1, 0)))
    assert bench.delete(1) == (DeletionResult(ErrorCode.POLICY_VIOLATION), NO_EFFECTS)
    assert bench.log.log_start_offset == 0


def test_a_log_that_is_compacted_only_is_deleted_from_by_nobody() -> None:
    bench = Bench(log=log_of(1, 1, 1, 1), high_watermark=4, is_compact_only=True)
    bench.apply(leader_epoch=2)
    assert bench.delete(1) == (DeletionResult(ErrorCode.POLICY_VIOLATION), NO_EFFECTS)
    assert bench.log.log_start_offset == 0


def test_i19_a_leader_that_does_not_know_yet_what_is_committed_refuses_what_it_can_not_judge() -> None:
    bench = Bench(log=log_of(1, 1, 1), high_watermark=2)
    bench.apply(leader_epoch=2)
    for before_offset in (-1, 3):
        assert bench.delete(before_offset)[0].error is ErrorCode.LEADER_NOT_AVAILABLE
    assert bench.delete(2)[0] == WAITING


def test_i37_a_deletion_waits_until_every_in_sync_replica_has_stored_it() -> None:
    bench = leading()
    assert bench.delete(3) == (WAITING, (LOG_START_MOVED,))
    bench.fetch(2, 4, log_start_offset=3)
    assert bench.stored(3) == NO_EFFECTS
    bench.fetch(3, 4, log_start_offset=2)
    assert bench.replica.has_waiters
    assert bench.fetch(3, 4, log_start_offset=3)[1] == (done(3),)
    assert not bench.replica.has_waiters


def test_i37_what_the_leader_itself_has_not_stored_is_not_done() -> None:
    bench = leading()
    bench.fetch(2, 4, log_start_offset=3)
    bench.fetch(3, 4, log_start_offset=3)
    assert bench.delete(3)[0] == WAITING
    assert bench.tick(100) == NO_EFFECTS
    assert bench.stored(3) == (done(3),)


def test_i37_a_replica_that_may_be_elected_from_the_elr_is_waited_for_and_others_are_not() -> None:
    bench = leading(isr=(1,), elr=(2,))
    bench.delete(3)
    assert bench.stored(3) == NO_EFFECTS
    assert bench.fetch(2, 4, log_start_offset=3)[1][0] == done(3)
    bench = leading(isr=(1, 2), elr=())
    bench.delete(3)
    bench.fetch(2, 4, log_start_offset=3)
    assert bench.stored(3) == (done(3),)


def test_i37_what_an_earlier_process_of_a_follower_told_counts_for_nothing() -> None:
    bench = leading()
    bench.fetch(2, 4, log_start_offset=3)
    bench.fetch(3, 4, log_start_offset=3)
    bench.brokers[3] = endpoint(3, 31)
    leader_of(bench).on_broker_changed(3, now_ms=bench.now_ms)
    bench.delete(3)
    assert bench.stored(3) == NO_EFFECTS


def test_i37_a_follower_joins_only_without_what_was_deleted() -> None:
    bench = leading(isr=(1, 2))
    bench.delete(3)
    bench.fetch(3, 4, log_start_offset=2)
    assert leader_of(bench).due_proposal(bench.now_ms) is None
    bench.fetch(3, 4, log_start_offset=3)
    proposal = leader_of(bench).due_proposal(bench.now_ms)
    assert proposal is not None
    assert [member.broker_id for member in proposal.isr] == [1, 2, 3]


def test_i37_the_next_leader_asks_as_much_of_who_joins() -> None:
    bench = Bench(log=log_of(1, start=3), high_watermark=4)
    bench.apply(leader_epoch=2, isr=(1, 2))
    bench.fetch(3, 4, log_start_offset=0)
    assert leader_of(bench).due_proposal(bench.now_ms) is None


def test_l1_a_deletion_is_answered_in_time_also_on_demotion_and_lapse() -> None:
    bench = leading()
    bench.delete(3, timeout_ms=500)
    assert bench.tick(499) == NO_EFFECTS
    assert bench.tick(1) == (failed(ErrorCode.REQUEST_TIMED_OUT),)
    assert bench.log.log_start_offset == 3  # what was begun is not taken back
    bench.delete(4)
    assert failed(ErrorCode.NOT_LEADER_OR_FOLLOWER) in bench.apply(
        leader=NO_LEADER, leader_epoch=3, partition_epoch=2
    )
    lapsing = Bench(log=log_of(1), high_watermark=1, lease=held_lease(1_000, lease_ms=100))
    lapsing.apply(leader_epoch=2)
    lapsing.delete(1)
    assert lapsing.tick(100) == (failed(ErrorCode.NOT_LEADER_OR_FOLLOWER),)
    assert lapsing.delete(1)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deletion_outlives_a_new_leadership_of_the_same_leader() -> None:
    bench = leading()
    bench.delete(3)
    bench.stored(3)
    bench.apply(leader_epoch=3, partition_epoch=2)
    bench.fetch(2, 4, log_start_offset=3)
    assert done(3) in bench.fetch(3, 4, log_start_offset=3)[1]


def test_deletions_that_wait_are_bounded() -> None:
    bench = Bench(log=log_of(1, 1), high_watermark=2, waiters_max=1)
    bench.apply(leader_epoch=2)
    bench.delete(1)
    assert bench.delete(2)[0].error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert bench.log.log_start_offset == 1


def test_a_full_disk_at_a_deletion_takes_the_replica_offline() -> None:
    bench = leading()
    bench.log.failing = "EIO"
    assert bench.delete(3)[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.delete(3)[0].error is ErrorCode.KAFKA_STORAGE_ERROR


def test_i37_a_follower_tells_a_log_start_only_once_it_is_stored() -> None:
    bench = Bench(2, log=log_of(1, 1, 1), high_watermark=3)
    bench.apply(leader_epoch=5)
    moved = LeaderAnswer(high_watermark=3, log_start_offset=2)
    assert bench.fetched(moved) == (LOG_START_MOVED,)
    assert bench.fetched(moved) == NO_EFFECTS
    position = bench.replica.next_fetch()
    assert position is not None
    assert position.log_start_offset == 0
    assert bench.stored(2) == (StartFetching(1, LeaderEpoch(5)),)
    position = bench.replica.next_fetch()
    assert position is not None
    assert position.log_start_offset == 2


@pytest.mark.parametrize("stored", [7, 3])
def test_a_log_that_begins_anew_lower_has_stored_no_more_than_that(stored: int) -> None:
    log = log_of(1, start=7)
    log_start = StoredLogStart(log)
    log.restart_at(3)
    log_start.restart_at(3)
    assert log_start.offset == 3
    log.restart_at(7)
    assert log_start.offset == 3
    assert log_start.must_store()
    assert not log_start.must_store()
    log_start.on_stored(stored)
    assert log_start.offset == stored
