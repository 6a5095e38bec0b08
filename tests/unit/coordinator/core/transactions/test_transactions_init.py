"""InitProducerId: take-overs, another epoch for the owner (KIP-360), the last epochs."""

from __future__ import annotations

import pytest

from coordinator.core.transaction_records import StoredTransaction, TransactionState
from coordinator.core.transactions.options import TransactionOptions
from coordinator.core.transactions.requests import InitProducerReply
from coordinator.core.transactions.state import EPOCH_MAX
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import (
    FIRST_ID,
    ID,
    P0,
    P1,
    TIMEOUT_MS,
    Producer,
    TransactionDesk,
    at_epoch,
)

LAST = EPOCH_MAX - 1


def test_a_new_id_gets_a_fresh_producer_id_and_epoch_0() -> None:
    desk = TransactionDesk()
    assert desk.init() == InitProducerReply(ErrorCode.NONE, FIRST_ID, 0)
    assert desk.stored() == StoredTransaction(
        producer_id=FIRST_ID,
        producer_epoch=0,
        timeout_ms=TIMEOUT_MS,
        state=TransactionState.EMPTY,
        updated_ms=WALL_MS,
        previous_producer_id=FIRST_ID,
    )


def test_each_take_over_bumps_the_epoch_and_keeps_the_producer_id() -> None:
    desk = TransactionDesk()
    assert [desk.init().producer_epoch for _ in range(3)] == [0, 1, 2]
    assert (desk.named, desk.stored().producer_id) == (1, FIRST_ID)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "owner", "error"),
    [
        ("", 1, (-1, -1), ErrorCode.INVALID_REQUEST),
        ("x" * 32_768, 1, (-1, -1), ErrorCode.INVALID_REQUEST),
        ("é" * 16_384, 1, (-1, -1), ErrorCode.INVALID_REQUEST),
        ("x" * 32_767, 1, (-1, -1), ErrorCode.NONE),
        (ID, 0, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, -1, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_001, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_000, (-1, -1), ErrorCode.NONE),
        (ID, 1, (5, -1), ErrorCode.INVALID_REQUEST),
        (ID, 1, (-1, 5), ErrorCode.INVALID_REQUEST),
        (ID, 1, (-2, -1), ErrorCode.INVALID_REQUEST),
        (ID, 1, (-1, -2), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_can_be_no_request_is_refused(
    transactional_id: str, timeout_ms: int, owner: tuple[int, int], error: ErrorCode
) -> None:
    desk = TransactionDesk()
    assert desk.init(transactional_id, timeout_ms=timeout_ms, owner=owner).error is error


def test_a_take_over_aborts_what_is_open_and_gets_its_epoch_afterwards() -> None:
    desk = TransactionDesk()
    old = desk.producer()
    desk.add(old, P0, P1)
    assert desk.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (desk.state, desk.stored().producer_epoch) == ("PrepareAbort", 1)
    assert desk.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    order = desk.write_markers()
    assert (order.producer_epoch, order.is_commit, order.version, order.partitions) == (1, False, 2, (P0, P1))
    assert desk.state == "CompleteAbort"
    assert desk.init() == InitProducerReply(ErrorCode.NONE, FIRST_ID, 2)
    assert desk.add(old) is ErrorCode.PRODUCER_FENCED


def test_a_take_over_while_an_end_is_decided_waits() -> None:
    """franz-go 1.21.4: the answer to wait must be one that clients ask again after."""
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.end(producer, version=1)
    assert desk.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.init() == InitProducerReply(ErrorCode.NONE, FIRST_ID, 1)


def test_while_a_record_is_under_way_a_take_over_waits() -> None:
    desk = TransactionDesk()
    desk.is_holding = True
    token = desk.start_init()
    assert desk.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.commit()
    assert desk.replies[token] == InitProducerReply(ErrorCode.NONE, FIRST_ID, 0)


def test_a_record_that_was_refused_burns_no_epoch() -> None:
    """KAFKA-9666."""
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.is_holding = True
    for _ in range(3):
        token = desk.start_init()
        desk.refuse()
        assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (desk.state, desk.stored().producer_epoch) == ("Ongoing", 0)
    desk.is_holding = False
    desk.init()
    assert desk.stored().producer_epoch == 1
    desk.write_markers()
    desk.is_holding = True
    desk.start_init()
    desk.refuse()
    desk.is_holding = False
    assert desk.init().producer_epoch == 2


# --- another epoch for the owner (KIP-360) ------------------------------------------------------------


def test_the_owner_gets_the_next_epoch_and_the_same_again_if_the_answer_was_lost() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    bumped = InitProducerReply(ErrorCode.NONE, FIRST_ID, 1)
    assert [desk.init(owner=producer.pair) for _ in range(3)] == [bumped] * 3
    assert desk.stored().producer_epoch == 1


def test_a_lost_answer_is_repeated_by_the_next_process() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.init(owner=producer.pair)
    desk.fail_over()
    assert desk.init(owner=producer.pair) == InitProducerReply(ErrorCode.NONE, FIRST_ID, 1)


def test_an_owner_that_was_taken_over_is_fenced() -> None:
    desk = TransactionDesk()
    old = desk.producer()
    new = desk.producer()
    assert desk.init(owner=old.pair).error is ErrorCode.PRODUCER_FENCED
    assert desk.init(owner=(new.producer_id + 1, new.epoch)).error is ErrorCode.PRODUCER_FENCED
    assert desk.init(owner=(new.producer_id, new.epoch + 1)).error is ErrorCode.PRODUCER_FENCED
    assert desk.init(owner=new.pair).producer_epoch == 2


def test_an_owner_that_was_fenced_does_not_abort_what_its_successor_has_open() -> None:
    desk = TransactionDesk()
    old = desk.producer()
    new = desk.producer()
    desk.add(new)
    assert desk.init(owner=old.pair).error is ErrorCode.PRODUCER_FENCED
    assert desk.state == "Ongoing"


def test_an_owner_that_asks_while_its_transaction_is_open_has_it_aborted_and_goes_on() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    assert desk.init(owner=producer.pair).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.init(owner=producer.pair).error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.init(owner=producer.pair) == InitProducerReply(ErrorCode.NONE, FIRST_ID, 1)


def test_an_owner_whose_transaction_another_has_aborted_is_fenced() -> None:
    desk = TransactionDesk()
    old = desk.producer()
    desk.add(old)
    desk.init()
    assert desk.init(owner=old.pair).error is ErrorCode.PRODUCER_FENCED
    desk.write_markers()
    assert desk.init(owner=old.pair).error is ErrorCode.PRODUCER_FENCED


def test_an_owner_whose_id_has_expired_gets_a_new_one() -> None:
    desk = TransactionDesk()
    assert desk.init(owner=(77, 3)) == InitProducerReply(ErrorCode.NONE, FIRST_ID, 0)


def test_the_owner_may_ask_under_what_the_end_of_its_transaction_has_bumped_from() -> None:
    """The answer to EndTxn 5 was lost, and the client gives up on it."""
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.end(producer)
    assert desk.init(owner=producer.pair).error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.init(owner=producer.pair) == InitProducerReply(ErrorCode.NONE, FIRST_ID, 1)


# --- the last epochs ------------------------------------------------------------------------------


def test_clients_get_the_epoch_before_the_last_and_then_a_fresh_id() -> None:
    desk = at_epoch(LAST - 1)
    assert desk.init() == InitProducerReply(ErrorCode.NONE, 77, LAST)
    assert desk.init() == InitProducerReply(ErrorCode.NONE, FIRST_ID, 0)
    assert desk.stored().previous_producer_id == 77


def test_an_owner_at_the_last_epoch_gets_a_fresh_id_and_the_same_again_if_the_answer_was_lost() -> None:
    desk = at_epoch(LAST)
    fresh = InitProducerReply(ErrorCode.NONE, FIRST_ID, 0)
    assert [desk.init(owner=(77, LAST)) for _ in range(3)] == [fresh] * 3
    desk.fail_over()
    assert desk.init(owner=(77, LAST)) == fresh
    assert desk.named == 1
    assert desk.init(owner=(77, LAST - 1)).error is ErrorCode.PRODUCER_FENCED


def test_the_epoch_before_the_last_is_given_again_if_the_answer_was_lost() -> None:
    desk = at_epoch(LAST - 1)
    for _ in range(2):
        assert desk.init(owner=(77, LAST - 1)) == InitProducerReply(ErrorCode.NONE, 77, LAST)
    assert desk.named == 0


@pytest.mark.parametrize("producer_id", [76, 78])
def test_another_producer_of_the_last_owners_epoch_is_fenced(producer_id: int) -> None:
    desk = at_epoch(3, last_producer_epoch=2)
    fenced = InitProducerReply(ErrorCode.PRODUCER_FENCED)
    assert desk.init(owner=(producer_id, 2)) == fenced
    desk = at_epoch(0, last_producer_epoch=LAST, previous_producer_id=60)
    for other in (59, 61):
        assert desk.init(owner=(other, LAST)) == fenced
    desk = at_epoch(0, last_producer_epoch=5, previous_producer_id=60)
    assert desk.init(owner=(60, 5)) == fenced, "its id had epochs left"


def test_an_id_that_came_after_another_is_not_given_to_an_owner_of_the_other_that_was_taken_over() -> None:
    desk = at_epoch(LAST)
    desk.init()
    assert desk.init(owner=(77, LAST)).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("owner", [(-1, -1), (77, LAST)])
def test_an_abort_at_the_last_epoch_uses_the_one_that_no_client_gets(owner: tuple[int, int]) -> None:
    """KAFKA-19367: two bumps made it negative."""
    desk = at_epoch(LAST)
    desk.add(Producer(77, LAST))
    assert desk.init(owner=owner).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.stored().producer_epoch == EPOCH_MAX
    assert desk.write_markers().producer_epoch == EPOCH_MAX
    assert desk.init(owner=owner) == InitProducerReply(ErrorCode.NONE, FIRST_ID, 0)
    assert desk.init(owner=(77, EPOCH_MAX)).error is ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_an_older_kafka_left_open_at_the_very_last_epoch_can_be_ended() -> None:
    """KAFKA-20090. Version 2 of markers takes higher epochs alone, and there is none."""
    desk = at_epoch(EPOCH_MAX, TransactionState.ONGOING, partitions=frozenset({P0}), started_ms=WALL_MS)
    assert desk.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    order = desk.write_markers()
    assert (order.producer_epoch, order.version) == (EPOCH_MAX, 1)
    assert desk.init() == InitProducerReply(ErrorCode.NONE, FIRST_ID, 0)


def test_an_owner_that_ended_at_the_last_epoch_may_ask_under_the_fresh_id_before_its_markers_are() -> None:
    desk = at_epoch(LAST)
    desk.add(Producer(77, LAST))
    reply = desk.end(Producer(77, LAST))
    owner = (reply.producer_id, reply.producer_epoch)
    assert desk.init(owner=owner).error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.init(owner=owner) == InitProducerReply(ErrorCode.NONE, FIRST_ID, 1)


# --- bounds -----------------------------------------------------------------------------------------


def test_a_shard_has_a_bound_on_ids_and_known_ones_go_on() -> None:
    desk = TransactionDesk(TransactionOptions(ids_max=2))
    assert [desk.init(name).error for name in "abc"] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    assert desk.init("a").error is ErrorCode.NONE
