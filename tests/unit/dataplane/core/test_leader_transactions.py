"""A leader's transactions: what it asks the coordinator, what a marker does, what readers are given."""

from __future__ import annotations

from typing import Any

import pytest

import dataplane.core.leader as leader_module
from dataplane.core import guards
from dataplane.core.effects import CompleteProduce
from dataplane.core.log_port import LogChanged
from dataplane.core.producer_state import ProducerView
from dataplane.core.results import AppendResult, OffsetResult, TimestampLookup, TxnContext
from dataplane.core.role import Offline
from dataplane.core.transactions import IsolationLevel
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import WRITER_IDS, Shard, WriterId
from springtide.contract.transactions import OpenTransaction, OpenTransactions
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction
from springtide.wire.markers import Marker, Outcome, read_marker
from tests.kit.dataplane.replica import WALL_MS, Bench, held_lease, leader_of, leading

COMMITTED = IsolationLevel.READ_COMMITTED
V1, V2 = TxnContext("t", is_v2=False), TxnContext("t", is_v2=True)
ABORT, COMMIT = Outcome.ABORT, Outcome.COMMIT


def batch(epoch: int = 0, sequence: int = 0, *, producer_id: int = 7, is_transactional: bool = True) -> Any:
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "is_transactional": is_transactional,
    }


def error_of(answer: tuple[AppendResult, Any]) -> ErrorCode:
    result = answer[0]
    assert result.must_verify is None
    return result.error


def latest(bench: Bench, isolation: IsolationLevel = COMMITTED) -> OffsetResult | TimestampLookup:
    return bench.replica.role.list_offset(
        -1, leader_epoch=LeaderEpoch(-1), now_ms=bench.now_ms, isolation=isolation
    )


# Verification (KIP-890).


def test_the_first_batch_of_a_transaction_is_written_once_its_coordinator_has_confirmed_it() -> None:
    bench = leading()
    result, effects = bench.append(txn=V1, **batch())
    guard = result.must_verify
    assert guard is not None
    assert (result.error, effects, bench.log.log_end_offset) == (ErrorCode.NONE, (), 0)
    assert (guard.producer_id, guard.producer_epoch) == (7, 0)
    result, _ = bench.append(txn=TxnContext("t", False, guard), **batch())
    assert (result.error, result.base_offset, result.is_waiting) == (ErrorCode.NONE, 0, True)
    assert bench.append(txn=V1, **batch(sequence=1))[0].base_offset == 1


def test_batches_that_came_with_the_first_share_its_guard() -> None:
    bench = leading()
    guard = bench.append(txn=V1, **batch())[0].must_verify
    other = bench.append(txn=V1, **batch(producer_id=8))[0].must_verify
    assert bench.append(txn=V1, **batch())[0].must_verify is guard is not other
    verified = TxnContext("t", False, guard)
    assert error_of(bench.append(txn=verified, **batch())) is ErrorCode.NONE
    assert error_of(bench.append(txn=verified, **batch(sequence=1))) is ErrorCode.NONE


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_marker_meanwhile_makes_a_verification_stale(is_v2: bool) -> None:
    """Under version 1 the batch may be of the transaction that the marker ended. Under version 2 its epoch
    says that it is of the next, and only the coordinator can say whether that has begun."""
    bench = leading()
    epoch = 1 if is_v2 else 0
    bench.begin(7)
    if not is_v2:
        bench.end(7)
    sequence = 0 if is_v2 else 1
    txn = TxnContext("t", is_v2)
    guard = bench.append(txn=txn, **batch(epoch, sequence))[0].must_verify
    assert guard is not None
    bench.end(7, epoch, ABORT, coordinator_epoch=2, version=2 if is_v2 else 0)
    end_offset = bench.log.log_end_offset
    result, _ = bench.append(txn=TxnContext("t", is_v2, guard), **batch(epoch, sequence))
    if is_v2:
        assert result.must_verify not in (None, guard)
        verified = TxnContext("t", True, result.must_verify)
        assert error_of(bench.append(txn=verified, **batch(epoch, sequence))) is ErrorCode.NONE
    else:
        assert result == AppendResult(ErrorCode.INVALID_TXN_STATE)
        assert bench.log.log_end_offset == end_offset


def test_a_batch_that_waited_behind_the_first_does_not_open_the_next_transaction() -> None:
    bench = leading()
    guard = bench.append(txn=V1, **batch())[0].must_verify
    verified = TxnContext("t", False, guard)
    bench.append(txn=verified, **batch())
    bench.end(7)
    assert error_of(bench.append(txn=verified, **batch(sequence=1))) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_that_need_not_be_written_again_makes_a_verification_stale_too() -> None:
    bench = leading()
    bench.begin(7)
    bench.end(7)
    guard = bench.append(txn=V1, **batch(sequence=1))[0].must_verify
    end_offset = bench.log.log_end_offset
    bench.end(7)
    assert bench.log.log_end_offset == end_offset
    stale = TxnContext("t", False, guard)
    assert error_of(bench.append(txn=stale, **batch(sequence=1))) is ErrorCode.INVALID_TXN_STATE


def test_a_guard_of_an_earlier_leadership_proves_nothing() -> None:
    """RP#8624 (RP#8486): there what was under way under an earlier term held up the next transaction."""
    bench = leading()
    guard = bench.append(txn=V1, **batch())[0].must_verify
    bench.apply(leader_epoch=2, partition_epoch=2)
    result, _ = bench.append(txn=TxnContext("t", False, guard), **batch())
    assert result.must_verify not in (None, guard)
    assert bench.log.log_end_offset == 0


def test_a_guard_of_another_producer_or_epoch_proves_nothing() -> None:
    bench = leading()
    guard = bench.append(txn=V1, **batch())[0].must_verify
    theirs = TxnContext("t", False, guard)
    assert bench.append(txn=theirs, **batch(producer_id=8))[0].must_verify is not None
    assert bench.append(txn=theirs, **batch(epoch=1))[0].must_verify is not None
    assert bench.log.log_end_offset == 0


def test_a_lower_producer_epoch_is_refused_before_verification() -> None:
    """KAFKA-18042."""
    bench = leading()
    bench.begin(7, epoch=3)
    bench.end(7, epoch=3)
    assert error_of(bench.append(txn=V1, **batch(epoch=2))) is ErrorCode.INVALID_PRODUCER_EPOCH
    bench.end(9, epoch=5)  # of a producer that has written nothing here
    late = batch(epoch=4, producer_id=9)
    assert error_of(bench.append(txn=V1, **late)) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_batch_behind_one_that_waits_is_judged_in_its_turn(is_v2: bool) -> None:
    """Producers have several batches on the way. Java fails where the second is out of order though the first
    was written."""
    bench = leading()
    bench.begin(7)
    bench.end(7, 1 if is_v2 else 0, version=2 if is_v2 else 0)
    epoch, first = (1, 0) if is_v2 else (0, 1)
    txn = TxnContext("t", is_v2)
    guard = bench.append(txn=txn, **batch(epoch, first))[0].must_verify
    assert bench.append(txn=txn, **batch(epoch, first + 1))[0].must_verify is guard
    assert bench.append(txn=txn, **batch(epoch, first + 3))[0].must_verify is guard
    verified = TxnContext("t", is_v2, guard)
    told = [error_of(bench.append(txn=verified, **batch(epoch, first + after))) for after in (0, 1, 3)]
    assert told == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_a_batch_that_is_stored_needs_no_verification() -> None:
    bench = leading()
    bench.begin(7)
    bench.end(7)
    result, _ = bench.append(txn=V1, **batch())
    assert (result.error, result.base_offset, result.must_verify) == (ErrorCode.NONE, 0, None)


def test_the_middle_of_unknown_sequences_is_refused_once_and_then_verified_and_taken() -> None:
    bench = leading()
    assert error_of(bench.begin(7, sequence=5)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert error_of(bench.begin(7, sequence=5)) is ErrorCode.NONE


def test_the_next_epoch_is_verified_while_the_last_transaction_waits_for_its_marker() -> None:
    """A client of version 2 begins before the marker of its last transaction is here."""
    bench = leading()
    bench.begin(7, is_v2=True)
    asked = bench.append(txn=V2, **batch(epoch=1))[0].must_verify
    assert asked is not None
    # Its coordinator would not have confirmed it: refused, whatever it says.
    early = TxnContext("t", True, asked)
    assert error_of(bench.append(txn=early, **batch(epoch=1))) is ErrorCode.INVALID_TXN_STATE
    bench.end(7, 1, version=2)
    assert error_of(bench.begin(7, 1, is_v2=True)) is ErrorCode.NONE
    assert bench.log.producers.transactions.open == {7: 2}


def test_a_new_epoch_begins_with_sequence_0() -> None:
    bench = leading()
    bench.begin(7, is_v2=True)
    bench.end(7, 1, version=2)
    next_ = batch(epoch=1, sequence=1)
    guard = bench.append(txn=V2, **next_)[0].must_verify
    verified = TxnContext("t", True, guard)
    assert error_of(bench.append(txn=verified, **next_)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_is_asked_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "GUARDS_MAX", 2)
    bench = leading()
    first = bench.append(txn=V1, **batch(producer_id=1))[0].must_verify
    bench.append(txn=V1, **batch(producer_id=2))
    third = batch(producer_id=3)
    assert error_of(bench.append(txn=V1, **third)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.append(txn=V1, **batch(producer_id=1))[0].must_verify is first
    bench.now_ms += guards.GUARD_KEPT_MS
    assert bench.append(txn=V1, **third)[0].must_verify is not None


def test_what_is_written_asks_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "GUARDS_MAX", 1)
    bench = leading()
    for producer_id in (7, 8):
        assert error_of(bench.begin(producer_id)) is ErrorCode.NONE


def test_open_transactions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "OPEN_MAX", 1)
    bench = leading()
    bench.begin(1)
    assert error_of(bench.begin(2)) is ErrorCode.NOT_ENOUGH_REPLICAS
    bench.end(1)
    assert error_of(bench.begin(2)) is ErrorCode.NONE


# Batches that are refused.


def test_a_batch_of_no_transaction_is_refused_while_its_producer_has_one_open() -> None:
    bench = leading()
    bench.begin(7)
    for epoch, sequence in ((0, 1), (1, 0)):
        outside = batch(epoch, sequence, is_transactional=False)
        assert error_of(bench.append(**outside)) is ErrorCode.INVALID_TXN_STATE
    bench.end(7)
    assert error_of(bench.append(**batch(sequence=1, is_transactional=False))) is ErrorCode.NONE


def test_a_transactional_batch_without_a_transaction_is_refused() -> None:
    bench = leading()
    assert error_of(bench.append(**batch())) is ErrorCode.INVALID_TXN_STATE
    assert bench.log.log_end_offset == 0


def test_a_shards_log_takes_neither_transactional_batches_nor_markers() -> None:
    """RP#24637: there a transaction in the log of groups' offsets kept it from being compacted further."""
    writer = WriterId(WRITER_IDS.start + 5, 0)
    bench = leading(shard=Shard(owner=1001, writer=writer))
    for producer_id in (7, writer.producer_id):
        refused = bench.append(txn=V1, **batch(producer_id=producer_id))
        assert error_of(refused) is ErrorCode.INVALID_TXN_STATE
    assert error_of(bench.end(7)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert bench.log.log_end_offset == 0


# Markers.


def test_a_marker_ends_the_transaction_and_is_answered_when_it_is_committed() -> None:
    bench = leading()
    bench.begin(7)
    result, _ = bench.end(7, outcome=ABORT, coordinator_epoch=9, waiter="marker")
    assert (result.error, result.base_offset, result.is_waiting) == (ErrorCode.NONE, 1, True)
    header, data = bench.log.batches[1]
    assert (header.is_control, header.is_transactional, header.leader_epoch) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, -1)
    assert header.base_timestamp == WALL_MS + bench.now_ms
    assert read_marker(data, header) == Marker(ABORT, 9)
    bench.fetch(2, 2)
    _, effects = bench.fetch(3, 2)
    assert CompleteProduce(("w", "marker"), ErrorCode.NONE) in effects
    assert bench.log.producers.transactions.open == {}


def test_of_what_is_committed_a_leader_keeps_nothing() -> None:
    bench = leading()
    for sequence in range(5):
        bench.begin(7, sequence=sequence)
        bench.end(7)
        assert (len(bench.log.producers.transactions.ended), leader_of(bench)._opened_ms) == (1, {})
        bench.commit_all()


def test_a_marker_waits_for_the_minimum_as_acks_all_does() -> None:
    bench = leading()
    bench.begin(7)
    bench.apply(partition_epoch=2, isr=(1,))
    assert error_of(bench.end(7)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.log.producers.transactions.is_open(7)


def test_a_marker_of_a_producer_that_wrote_nothing_here_fences_what_comes_late() -> None:
    bench = leading()
    result, _ = bench.end(7, 4, ABORT)
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    assert error_of(bench.append(txn=V1, **batch(epoch=3))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.log.aborted_in(0, 10) == []


def test_a_marker_of_an_earlier_coordinator_is_refused() -> None:
    bench = leading()
    bench.begin(7)
    bench.end(7, coordinator_epoch=5)
    bench.begin(7, sequence=1)
    assert error_of(bench.end(7, coordinator_epoch=4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert bench.log.producers.transactions.is_open(7)
    assert error_of(bench.end(7, coordinator_epoch=6)) is ErrorCode.NONE


def test_a_marker_of_an_earlier_epoch_is_refused() -> None:
    bench = leading()
    bench.begin(7, 3)
    for version in (0, 2):
        assert error_of(bench.end(7, 2, version=version)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(bench.end(-1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(bench.end(7, -1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.log.log_end_offset == 1


def test_under_version_1_a_marker_may_carry_the_epoch_of_its_transaction_or_a_later_one() -> None:
    bench = leading()
    bench.begin(7, 3)
    assert error_of(bench.end(7, 3)) is ErrorCode.NONE
    bench.begin(7, 3, sequence=1)
    assert error_of(bench.end(7, 4, ABORT)) is ErrorCode.NONE
    assert error_of(bench.append(txn=V1, **batch(3, 2))) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_under_version_2_a_stale_marker_of_the_same_epoch_ends_nothing() -> None:
    """KAFKA-19446: the marker of transaction n, which carries the epoch of n + 1, comes again in n + 1."""
    bench = leading()
    bench.begin(7, 0, is_v2=True)
    bench.end(7, 1, ABORT, version=2)
    bench.begin(7, 1, is_v2=True)
    assert error_of(bench.end(7, 1, ABORT, version=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.log.producers.transactions.open == {7: 2}
    assert error_of(bench.end(7, 2, version=2)) is ErrorCode.NONE


@pytest.mark.parametrize("coordinator_epoch", [1, 2])
def test_a_marker_that_comes_again_is_answered_without_a_second_one(coordinator_epoch: int) -> None:
    """KAFKA-19999: refused, a coordinator that took over would send it for ever."""
    bench = leading()
    bench.begin(7, 0, is_v2=True)
    bench.end(7, 1, version=2, waiter="first")
    result, _ = bench.end(7, 1, version=2, coordinator_epoch=coordinator_epoch, waiter="again")
    assert (result.error, result.base_offset, result.is_waiting) == (ErrorCode.NONE, -1, True)
    assert bench.log.log_end_offset == 2
    bench.fetch(2, 2)
    _, effects = bench.fetch(3, 2)
    assert CompleteProduce(("w", "first", "again"), ErrorCode.NONE) in effects
    assert bench.end(7, 1, version=2) == (AppendResult(ErrorCode.NONE), ())


def test_under_version_1_the_same_coordinators_marker_is_not_written_twice() -> None:
    bench = leading()
    bench.begin(7)
    bench.end(7, coordinator_epoch=3)
    assert bench.end(7, coordinator_epoch=3)[0].is_waiting
    assert bench.log.log_end_offset == 2
    bench.end(7, coordinator_epoch=4)  # written: it fences the earlier coordinator
    assert bench.log.log_end_offset == 3
    assert error_of(bench.end(7, coordinator_epoch=3)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize("late", [4, 5])
def test_under_version_1_a_marker_that_was_sent_before_the_last_one_ends_nothing(late: int) -> None:
    """Its coordinator had no answer, sent it again, and ended the transaction with that."""
    bench = leading()
    bench.begin(7)
    bench.end(7, coordinator_epoch=3, attempt=5)
    bench.begin(7, sequence=1)
    result, effects = bench.end(7, outcome=ABORT, coordinator_epoch=3, attempt=late)
    assert (result.error, result.base_offset, effects) == (ErrorCode.NONE, -1, ())
    assert bench.log.producers.transactions.open == {7: 2}
    told = bench.replica.role.open_transactions(bench.now_ms)
    assert told is not None and [one.first_offset for one in told.oldest] == [2]
    assert bench.end(7, coordinator_epoch=3, attempt=6)[0].base_offset == 3
    assert bench.log.producers.transactions.open == {}


def test_a_marker_that_need_not_be_written_again_is_the_last_one_all_the_same() -> None:
    """The second transaction wrote nothing here. Of its two markers the first comes in the third one."""
    bench = leading()
    bench.begin(7)
    bench.end(7, coordinator_epoch=3, attempt=5)
    assert bench.end(7, coordinator_epoch=3, attempt=7)[0].base_offset == -1
    bench.begin(7, sequence=1)
    assert bench.end(7, coordinator_epoch=3, attempt=6)[0].base_offset == -1
    assert bench.log.producers.transactions.open == {7: 2}


def test_a_late_marker_leaves_the_next_transactions_verification() -> None:
    bench = leading()
    bench.begin(7)
    bench.end(7, coordinator_epoch=3, attempt=5)
    guard = bench.append(txn=V1, **batch(sequence=1))[0].must_verify
    bench.end(7, coordinator_epoch=3, attempt=4)
    assert error_of(bench.append(txn=TxnContext("t", False, guard), **batch(sequence=1))) is ErrorCode.NONE


def test_the_numbers_of_markers_are_of_one_coordinator_and_tools_have_none() -> None:
    bench = leading()
    bench.begin(7)
    bench.end(7, coordinator_epoch=3, attempt=50)
    bench.begin(7, sequence=1)
    assert bench.end(7, coordinator_epoch=4, attempt=1)[0].base_offset == 3
    bench.begin(7, sequence=2)
    assert bench.end(7, coordinator_epoch=4)[0].base_offset == 5
    bench.begin(7, sequence=3)
    assert bench.end(7, coordinator_epoch=4, attempt=1)[0].base_offset == -1


def test_a_marker_that_was_sent_to_another_leadership_is_not_taken() -> None:
    """A leader knows no numbers of the markers that others have written."""
    bench = leading()
    epoch = leader_of(bench).leader_epoch
    bench.begin(7)
    for other in (epoch - 1, epoch + 1):
        assert error_of(bench.end(7, leader_epoch=other)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.log.log_end_offset == 1
    assert error_of(bench.end(7, leader_epoch=epoch)) is ErrorCode.NONE


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (0, -1), (-1, -1), (0, 0)])
def test_a_marker_names_a_producer_and_its_epoch(producer_id: int, epoch: int) -> None:
    refused = ErrorCode.INVALID_PRODUCER_EPOCH if min(producer_id, epoch) < 0 else ErrorCode.NONE
    assert error_of(leading().end(producer_id, epoch)) is refused


@pytest.mark.parametrize(
    ("free_bytes", "error"), [(500, ErrorCode.KAFKA_STORAGE_ERROR), (900, ErrorCode.NONE)]
)
def test_a_full_disk_admits_markers_from_half_of_its_reserve(free_bytes: int, error: ErrorCode) -> None:
    bench = leading()
    bench.log.room.on_look(free_bytes=free_bytes, reserve_bytes=1_000)
    assert error_of(bench.append()) is ErrorCode.KAFKA_STORAGE_ERROR
    assert error_of(bench.end(7)) is error
    assert bench.log.log_end_offset == int(error is ErrorCode.NONE)


def test_a_marker_is_refused_where_too_many_wait() -> None:
    bench = Bench(waiters_max=1)
    bench.apply()
    assert bench.end(7)[0].is_waiting
    assert error_of(bench.end(8)) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_marker_that_the_disk_does_not_take_takes_the_replica_offline() -> None:
    bench = leading()
    bench.log.failing = "EIO"
    assert error_of(bench.end(7)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(bench.replica.role, Offline)


def test_a_leader_without_its_lease_writes_no_marker() -> None:
    bench = Bench(lease=held_lease(lease_ms=5_000))
    bench.apply()
    bench.now_ms += 10_000
    assert error_of(bench.end(7)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_a_leader_that_may_serve_writes_markers() -> None:
    follower = Bench(2)
    follower.apply()
    assert error_of(follower.end(7)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_of(Bench().end(7)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Readers.


def test_readers_of_committed_records_stop_at_the_first_open_transaction() -> None:
    bench = leading()
    bench.append()
    bench.begin(7)
    bench.append()
    bench.commit_all()
    stable = bench.consume(0, isolation=COMMITTED)
    assert (stable.high_watermark, stable.last_stable_offset) == (3, 1)
    assert stable.records is not None
    assert stable.records.next_offset == 1
    at_stable = bench.consume(1, isolation=COMMITTED)
    assert at_stable.records is not None
    assert (at_stable.records.size_bytes, at_stable.found_no_room) == (0, False)
    unstable = bench.consume(0)
    assert unstable.records is not None
    assert (unstable.records.next_offset, unstable.last_stable_offset, unstable.aborted) == (3, 1, None)


def test_a_transaction_that_has_ended_is_unstable_until_its_marker_is_committed() -> None:
    bench = leading()
    bench.begin(7)
    bench.begin(8)
    bench.commit_all()
    bench.end(7)
    assert bench.consume(0).last_stable_offset == 0
    bench.commit_all()
    assert bench.consume(0).last_stable_offset == 1
    bench.end(8)
    bench.commit_all()
    result = bench.consume(0, isolation=COMMITTED)
    assert (result.last_stable_offset, result.unstable_from, result.aborted) == (4, -1, None)


def test_a_transaction_that_ended_first_does_not_hide_an_older_one_whose_marker_is_not_committed() -> None:
    bench = leading()
    bench.begin(7)
    bench.begin(8)
    bench.commit_all()
    bench.end(8)
    bench.commit_all()
    bench.end(7)
    assert bench.consume(0).last_stable_offset == 0


def test_aborted_transactions_are_told_in_the_order_of_their_first_offsets() -> None:
    """franz-go 1.21.4: clients walk the list once."""
    bench = leading()
    for producer_id in (1, 2, 3):
        bench.begin(producer_id)
    bench.append()
    for producer_id in (3, 1):
        bench.end(producer_id, outcome=ABORT)
    bench.end(2)
    bench.commit_all()
    result = bench.consume(0, isolation=COMMITTED)
    assert result.aborted == (AbortedTransaction(1, 0), AbortedTransaction(3, 2))
    assert bench.consume(4, isolation=COMMITTED).aborted == (
        AbortedTransaction(1, 0),
        AbortedTransaction(3, 2),
    )
    assert bench.consume(5, isolation=COMMITTED).aborted == (AbortedTransaction(1, 0),)
    assert bench.consume(6, isolation=COMMITTED).aborted is None
    assert bench.consume(0).aborted is None


def test_only_what_overlaps_the_records_of_the_answer_is_told() -> None:
    bench = leading()
    size = 0
    for sequence in range(3):
        bench.begin(7, sequence=sequence)
        bench.end(7, outcome=ABORT)
        size = sum(len(data) for _, data in bench.log.batches[:2])
    bench.commit_all()
    assert bench.consume(0, isolation=COMMITTED, max_bytes=size).aborted == (AbortedTransaction(7, 0),)
    assert bench.consume(2, isolation=COMMITTED, max_bytes=size).aborted == (AbortedTransaction(7, 2),)


def test_the_latest_offset_of_a_reader_of_committed_records_is_the_last_stable_one() -> None:
    bench = leading()
    bench.append()
    bench.begin(7)
    bench.commit_all()
    assert latest(bench) == OffsetResult(ErrorCode.NONE, 1, leader_epoch=LeaderEpoch(1))
    uncommitted = latest(bench, IsolationLevel.READ_UNCOMMITTED)
    assert uncommitted == OffsetResult(ErrorCode.NONE, 2, leader_epoch=LeaderEpoch(1))


def test_no_latest_offset_before_what_is_committed_is_known() -> None:
    bench = leading()
    bench.begin(7)
    bench.apply(leader_epoch=2, partition_epoch=2)
    assert latest(bench) == OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE)


@pytest.mark.parametrize("timestamp_ms", [0, -3])
def test_a_lookup_by_timestamp_ends_at_the_last_stable_offset(timestamp_ms: int) -> None:
    bench = leading()
    bench.append()
    bench.begin(7)
    bench.commit_all()
    role, now_ms = leader_of(bench), bench.now_ms
    lookup = role.list_offset(timestamp_ms, leader_epoch=LeaderEpoch(-1), now_ms=now_ms, isolation=COMMITTED)
    assert isinstance(lookup, TimestampLookup)
    assert lookup.end_offset == 1
    bench.end(7)
    bench.commit_all()
    bench.log.advance_log_start(1)
    again, _ = role.on_looked_up(lookup, LogChanged(), now_ms=now_ms)
    assert isinstance(again, TimestampLookup)
    assert (again.end_offset, again.isolation) == (3, COMMITTED)


def test_what_is_deleted_is_not_waited_for() -> None:
    bench = leading()
    bench.begin(7)
    bench.append()
    bench.commit_all()
    bench.delete(2)
    assert bench.consume(2, isolation=COMMITTED).last_stable_offset == 2
    assert bench.replica.last_stable_offset == 2
    assert error_of(bench.end(7, outcome=ABORT)) is ErrorCode.NONE


# What operators are told.


def test_producers_are_described_with_their_transactions() -> None:
    bench = leading()
    bench.begin(7)
    bench.end(7, coordinator_epoch=3)
    bench.append()
    bench.begin(7, sequence=1)
    bench.end(8, 4)
    described = leader_of(bench).describe_producers(bench.now_ms).producers
    assert [producer._replace(last_timestamp_ms=0) for producer in described] == [
        ProducerView(7, 0, 1, 0, 3, 3),
        ProducerView(8, 4, -1, 0, 1, -1),
    ]


def test_a_leader_reports_what_is_open_and_for_how_long() -> None:
    bench = leading()
    assert leader_of(bench).lag(bench.now_ms).transactions is None
    bench.append()
    bench.begin(7)
    bench.commit_all()
    bench.now_ms += 50
    bench.begin(8, 2)
    bench.now_ms += 99
    bench.begin(7, sequence=1)
    bench.now_ms += 1
    told = OpenTransactions(1, 2, (OpenTransaction(7, 0, 1, 150), OpenTransaction(8, 2, 2, 100)))
    assert leader_of(bench).open_transactions(bench.now_ms) == told
    assert leader_of(bench).lag(bench.now_ms).transactions == told
    bench.apply(leader_epoch=2, partition_epoch=2)
    bench.now_ms += 30
    open_ = leader_of(bench).open_transactions(bench.now_ms)
    assert open_ is not None
    assert [each.open_ms for each in open_.oldest] == [30, 30], "as far as this leader knows"
    assert Bench().replica.role.open_transactions(0) is None
