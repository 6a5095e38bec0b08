"""Partitions of a transaction: added and verified."""

from __future__ import annotations

import pytest

from coordinator.core.transaction_records import TransactionPartition, TransactionState
from coordinator.core.transactions import partitions
from coordinator.core.transactions.options import HELD_MS_MAX, TransactionOptions
from coordinator.core.transactions.requests import AddToTransaction, PartitionsReply
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import FIRST_ID, P0, P1, Producer, TransactionDesk, at_epoch

NONE = ErrorCode.NONE
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS
OFFSETS = TransactionPartition("__consumer_offsets", 13)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_the_first_partition_begins_a_transaction_and_others_join_it(state: TransactionState) -> None:
    desk = at_epoch(5, state, started_ms=WALL_MS - 9)
    producer = Producer(77, 5)
    desk.wait(1_000)
    assert desk.add(producer, P0) is NONE
    desk.wait(1_000)
    assert desk.add(producer, P1, OFFSETS) is NONE
    stored = desk.stored()
    assert stored.partitions == {P0, P1, OFFSETS}
    assert (stored.started_ms, stored.updated_ms) == (WALL_MS + 1_000, WALL_MS + 2_000)
    assert (stored.state, stored.version) == (TransactionState.ONGOING, 2)


def test_partitions_that_are_in_are_answered_without_a_record() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P0, P1)
    records = len(desk.records)
    assert desk.add(producer, P1) is NONE
    assert len(desk.records) == records


def test_no_partition_begins_no_transaction() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    request = AddToTransaction(
        token=desk.token(),
        transactional_id="payments",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        partitions=(),
    )
    assert desk.replies[desk.ask(request)] == PartitionsReply(())
    assert desk.state == "Empty"


def test_additions_do_not_wait_for_each_other_and_are_answered_when_they_are_committed() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.is_holding = True
    tokens = [desk.start_add(producer, place) for place in (P0, P1, P0)]
    assert not desk.replies.keys() & set(tokens)
    desk.commit(1)
    assert desk.replies.keys() & set(tokens) == {tokens[0]}
    desk.commit()
    assert [desk.added(token) for token in tokens] == [NONE] * 3


def test_an_addition_does_not_wait_for_the_record_of_the_end_before() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P0)
    desk.end(producer)
    producer.epoch = 1
    desk.is_holding = True
    desk.start_markers(desk.orders.pop("payments"))
    token = desk.start_add(producer, P1)
    desk.commit()
    assert desk.added(token) is NONE
    assert (desk.stored().partitions, desk.machine.markers.left) == ({P1}, {})


def test_additions_that_were_refused_are_not_in() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.is_holding = True
    tokens = [desk.start_add(producer, place) for place in (P0, P1)]
    desk.refuse()
    assert [desk.replies[token] for token in tokens] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert desk.state == "Empty"
    assert desk.machine.registry.store.partitions == 0


def ended(version: int) -> tuple[TransactionDesk, Producer]:
    """Return a desk on which the end of a transaction is decided, and its producer, which goes on."""
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P0, version=version)
    assert desk.end(producer, version=version).error is NONE
    return desk, Producer(FIRST_ID, version - 1)


@pytest.mark.parametrize("version", [1, 2])
def test_the_next_transaction_begins_with_the_last_marker(version: int) -> None:
    """A client that is told to wait comes back after 20 ms, several times what the markers take."""
    desk, producer = ended(version)
    tokens = [desk.start_add(producer, place, version=version) for place in (P0, P1)]
    assert not desk.replies.keys() & set(tokens)
    assert desk.end(producer, is_commit=False, version=version).error is WAIT
    desk.write_markers()
    assert [desk.added(token) for token in tokens] == [NONE, NONE]
    assert (desk.stored().partitions, desk.state) == ({P0, P1}, "Ongoing")
    assert desk.end(producer, version=version).error is NONE


@pytest.mark.parametrize("version", [1, 2])
def test_who_waits_too_long_for_markers_is_told_to_ask_again(version: int) -> None:
    desk, producer = ended(version)
    token = desk.start_add(producer, P1, version=version)
    desk.wait(HELD_MS_MAX[version] - 1)
    assert token not in desk.replies
    desk.wait(1)
    assert desk.added(token) is WAIT
    desk.write_markers()
    assert desk.state == "CompleteCommit"


def test_who_waits_for_markers_is_told_when_the_shard_goes() -> None:
    desk, producer = ended(2)
    token = desk.start_add(producer, P1)
    desk.fail_over()
    assert desk.replies[token] is ErrorCode.NOT_COORDINATOR


def test_what_was_held_is_refused_with_the_record_of_the_end() -> None:
    desk, producer = ended(2)
    token = desk.start_add(producer, P1)
    desk.is_holding = True
    desk.write_markers()
    assert token not in desk.replies
    desk.refuse()
    assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    desk.commit()
    assert desk.state == "CompleteCommit"


@pytest.mark.parametrize("version", [1, 2])
def test_after_a_decision_the_next_transaction_waits_for_the_markers(version: int) -> None:
    """KAFKA-18464: it was fenced."""
    desk, following = ended(version)
    late = Producer(FIRST_ID, 0)
    assert desk.verify(following, P1) == [WAIT]
    if version == 2:
        assert desk.add(late, P1) is ErrorCode.PRODUCER_FENCED
        assert desk.verify(late, P1) == [ErrorCode.PRODUCER_FENCED]
    desk.write_markers()
    assert desk.verify(following, P1) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert desk.add(following, P1) is NONE


def test_others_are_refused() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    for epoch in (producer.epoch - 1, producer.epoch + 1):
        assert desk.add(Producer(FIRST_ID, epoch)) is ErrorCode.PRODUCER_FENCED
        assert desk.verify(Producer(FIRST_ID, epoch), P0) == [ErrorCode.PRODUCER_FENCED]
    other = Producer(FIRST_ID + 1, producer.epoch)
    assert desk.add(other) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.verify(other, P0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert desk.add(producer, transactional_id="unknown") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_refusal_by_what_is_under_way_is_to_wait() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.is_holding = True
    desk.start_init()
    assert desk.add(producer) is WAIT
    desk.refuse()
    desk.is_holding = False
    assert desk.add(producer) is NONE


def test_a_leader_is_told_what_is_in_the_open_transaction_of_the_epoch() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    assert desk.verify(producer, P0) == [ErrorCode.TRANSACTION_ABORTABLE]
    desk.is_holding = True
    desk.start_add(producer, P0)
    assert desk.verify(producer, P0) == [ErrorCode.TRANSACTION_ABORTABLE]
    desk.commit()
    assert desk.verify(producer, P0, P1) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    desk.start_end(producer)
    assert desk.verify(producer, P0) == [NONE]
    desk.commit()
    assert desk.verify(producer, P0) == [ErrorCode.PRODUCER_FENCED]


@pytest.mark.parametrize(
    ("version", "error"), [(1, ErrorCode.POLICY_VIOLATION), (2, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_a_transaction_has_to_fit_into_one_record(
    version: int, error: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    monkeypatch.setattr(partitions, "TRANSACTION_BYTES_MAX", 120)
    assert desk.add(producer, P0) is NONE
    many = [TransactionPartition("t", number) for number in range(20)]
    assert desk.add(producer, *many, version=version) is error
    assert desk.stored().partitions == {P0}
    assert desk.end(producer).error is NONE


def test_a_shard_has_a_bound_on_partitions() -> None:
    desk = TransactionDesk(TransactionOptions(partitions_max=2))
    first, second = desk.producer("a"), desk.producer("b")
    assert desk.add(first, P0, P1, transactional_id="a") is NONE
    assert desk.add(second, P0, transactional_id="b") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    desk.end(first, transactional_id="a")
    desk.write_markers("a")
    assert desk.add(second, P0, transactional_id="b") is NONE


def test_partitions_that_a_transaction_has_already_take_no_room() -> None:
    desk = TransactionDesk(TransactionOptions(partitions_max=2))
    producer = desk.producer()
    assert desk.add(producer, P0) is NONE
    assert desk.add(producer, P0, P1) is NONE
