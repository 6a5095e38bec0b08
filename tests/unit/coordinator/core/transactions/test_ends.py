"""EndTxn under both versions: the whole table, markers, and what is on record when."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coordinator.core.transaction_records import TransactionState
from coordinator.core.transactions.markers import MarkerOrder
from coordinator.core.transactions.requests import (
    NO_CLIENT,
    EndTransactionReply,
    LeftConnection,
    MarkersReply,
    NeedsProducerId,
)
from coordinator.core.transactions.state import EPOCH_MAX
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.transaction_desk import (
    CLIENT,
    FIRST_ID,
    ID,
    P0,
    P1,
    Producer,
    TransactionDesk,
    at_epoch,
)

NONE = ErrorCode.NONE
STATE = ErrorCode.INVALID_TXN_STATE
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
LAST = EPOCH_MAX - 1
EPOCH = 5

S = TransactionState
TABLE = {
    # state: version 1 commit, abort; version 2 commit, abort; version 2 with the epoch before: commit, abort
    S.EMPTY: (STATE, STATE, STATE, "bump", FENCED, FENCED),
    S.ONGOING: ("decide", "decide", "decide", "decide", FENCED, FENCED),
    S.PREPARE_COMMIT: (WAIT, STATE, WAIT, WAIT, WAIT, STATE),
    S.PREPARE_ABORT: (STATE, WAIT, WAIT, WAIT, FENCED, WAIT),
    S.COMPLETE_COMMIT: (NONE, STATE, STATE, "bump", NONE, STATE),
    S.COMPLETE_ABORT: (STATE, NONE, STATE, "bump", FENCED, NONE),
}
ROWS = [
    (state, version, epoch, is_commit, row[2 * column + (not is_commit)])
    for state, row in TABLE.items()
    for column, (version, epoch) in enumerate([(1, EPOCH), (2, EPOCH), (2, EPOCH - 1)])
    for is_commit in (True, False)
]


@pytest.mark.parametrize(("state", "version", "epoch", "is_commit", "told"), ROWS)
def test_the_table(state: S, version: int, epoch: int, is_commit: bool, told: ErrorCode | str) -> None:
    """Version 1's rows hold for records of version 1, those of version 2 for records of version 2."""
    is_open = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    partitions = frozenset({P0}) if is_open else frozenset()
    desk = at_epoch(EPOCH, state, partitions=partitions, version=version)
    before = desk.stored()
    reply = desk.end(Producer(77, epoch), is_commit=is_commit, version=version)
    if isinstance(told, ErrorCode):
        is_repeated = told is NONE and version == 2
        assert reply == EndTransactionReply(told, *((77, EPOCH) if is_repeated else ()))
        assert desk.stored() == before
        return
    next_epoch = EPOCH + (version == 2)
    assert reply == EndTransactionReply(NONE, *((77, next_epoch) if version == 2 else ()))
    decided = S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT
    assert desk.stored().state is (S.COMPLETE_ABORT if told == "bump" else decided)
    assert list(desk.orders) == ([] if told == "bump" else [ID])
    assert desk.stored().producer_epoch == next_epoch


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("state", list(S))
def test_any_other_epoch_is_fenced_and_any_other_producer_id_is_unknown(state: S, version: int) -> None:
    desk = at_epoch(EPOCH, state, partitions=frozenset({P0} if state is S.ONGOING else ()), version=version)
    for is_commit in (True, False):
        for epoch in (0, EPOCH - 2, EPOCH + 1, -1):
            assert desk.end(Producer(77, epoch), is_commit=is_commit, version=version).error is FENCED
        error = desk.end(Producer(78, EPOCH), is_commit=is_commit, version=version).error
        assert error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    unknown = desk.end(Producer(77, EPOCH), version=version, transactional_id="unknown").error
    assert unknown is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_epoch_before_is_fenced_where_no_end_has_bumped() -> None:
    """It was of another owner: an old process of a newer client, whose successor speaks version 1."""
    desk = at_epoch(EPOCH, S.COMPLETE_COMMIT, version=1)
    assert desk.end(Producer(77, EPOCH - 1)).error is FENCED
    desk = at_epoch(0, S.COMPLETE_COMMIT, version=1, previous_producer_id=78)
    assert desk.end(Producer(78, LAST)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# --- decisions and markers --------------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_is_answered_once_it_is_decided_and_its_markers_are_due_then(is_commit: bool) -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P1, P0)
    desk.is_holding = True
    token = desk.start_end(producer, is_commit=is_commit)
    assert (token in desk.replies, desk.machine.markers.has_new) == (False, False)
    desk.commit()
    assert desk.replies[token] == EndTransactionReply(NONE, FIRST_ID, 1)
    assert desk.orders[ID] == MarkerOrder(
        transactional_id=ID,
        producer_id=FIRST_ID,
        producer_epoch=1,
        is_commit=is_commit,
        version=2,
        partitions=(P0, P1),
    )


def test_the_markers_of_version_1_have_the_epoch_of_the_transaction() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, version=1)
    assert desk.end(producer, version=1) == EndTransactionReply(NONE)
    order = desk.write_markers()
    assert (order.producer_epoch, order.version) == (0, 1)
    assert desk.add(producer, version=1) is NONE


def test_an_end_is_complete_when_each_partition_has_its_marker_or_is_gone() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P0, P1)
    desk.end(producer)
    order = desk.orders.pop(ID)
    assert [desk.markers_left(order, P0) for _ in range(2)] == [1, 1]
    assert desk.describe().partitions == (P1,)
    assert desk.markers_left(replace(order, producer_epoch=7), P1) == 0
    assert desk.state == "PrepareCommit"
    assert desk.markers_left(order, P1) == 0
    assert (desk.state, desk.stored().partitions, desk.machine.markers.left) == (
        "CompleteCommit",
        frozenset(),
        {},
    )
    assert desk.markers_left(order, P1) == 0


def test_the_last_marker_is_answered_once_the_end_is_on_record() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.end(producer)
    order = desk.orders.pop(ID)
    desk.is_holding = True
    tokens = [desk.start_markers(order) for _ in range(2)]
    assert len(desk.in_flight) == 1
    desk.commit()
    assert [desk.replies[token] for token in tokens] == [MarkersReply(0)] * 2


def test_an_end_whose_record_was_refused_is_written_again_without_new_markers() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.end(producer)
    desk.is_holding = True
    token = desk.start_markers(desk.orders.pop(ID))
    desk.refuse()
    assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    desk.refuse()
    desk.commit()
    assert (desk.state, desk.orders, desk.machine.markers.left) == ("CompleteCommit", {}, {})


def test_a_decision_that_was_refused_leaves_the_transaction_open() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.is_holding = True
    token = desk.start_end(producer)
    desk.refuse()
    desk.is_holding = False
    assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (desk.state, desk.stored().producer_epoch, desk.orders) == ("Ongoing", 0, {})
    assert desk.end(producer, is_commit=False) == EndTransactionReply(NONE, FIRST_ID, 1)


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_process_sends_the_markers_again(is_commit: bool) -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P0, P1)
    desk.end(producer, is_commit=is_commit)
    order = desk.orders[ID]
    desk.markers_left(order, P0)
    desk.fail_over()
    assert desk.orders == {ID: order}


def test_while_a_record_is_under_way_an_end_waits() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.is_holding = True
    desk.start_add(producer)
    assert desk.end(producer).error is WAIT  # librdkafka 4849: it aborts before that is answered
    desk.commit()
    desk.start_end(producer)
    assert desk.end(producer).error is WAIT
    assert desk.end(Producer(FIRST_ID, 9)).error is WAIT


def test_an_answer_that_was_lost_is_repeated_before_and_after_the_markers_by_any_process() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    told = desk.end(producer)
    desk.fail_over()
    assert desk.end(producer).error is WAIT
    desk.write_markers()
    desk.fail_over()
    assert [desk.end(producer) for _ in range(2)] == [told] * 2


# --- the coordinator's own aborts -------------------------------------------------------------------


def test_a_commit_that_races_the_abort_of_its_timeout_is_fenced() -> None:
    """KAFKA-20785: INVALID_TXN_STATE is fatal where a producer that is fenced may begin anew."""
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.wait(70_000)
    assert desk.state == "PrepareAbort"
    assert desk.end(producer).error is FENCED
    desk.write_markers()
    assert desk.end(producer).error is FENCED


def test_an_abort_that_races_the_abort_of_its_timeout_is_taken_for_it() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    desk.wait(70_000)
    assert desk.end(producer, is_commit=False).error is WAIT
    desk.write_markers()
    assert desk.end(producer, is_commit=False) == EndTransactionReply(NONE, FIRST_ID, 1)
    assert desk.add(Producer(FIRST_ID, 1)) is NONE


def test_a_producer_of_version_1_that_timed_out_is_fenced() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, version=1)
    desk.wait(70_000)
    for is_commit in (True, False):
        assert desk.end(producer, is_commit=is_commit, version=1).error is FENCED
    order = desk.write_markers()
    assert (order.version, order.producer_epoch) == (2, 1)
    for is_commit in (True, False):
        assert desk.end(producer, is_commit=is_commit, version=1).error is FENCED


# --- the last epochs --------------------------------------------------------------------------------


def test_an_end_at_the_last_epoch_needs_a_fresh_id_and_answers_it() -> None:
    """KAFKA-18660: it answered the old id and the epoch that no client gets."""
    desk = at_epoch(LAST)
    producer = Producer(77, LAST)
    desk.add(producer)
    reply = desk.end(producer)
    assert reply == EndTransactionReply(NONE, FIRST_ID, 0)
    stored = desk.stored()
    assert (stored.producer_id, stored.producer_epoch, stored.next_producer_id) == (77, EPOCH_MAX, FIRST_ID)
    order = desk.orders[ID]
    assert (order.producer_id, order.producer_epoch) == (77, EPOCH_MAX)
    # Before the markers are written the next transaction waits, and is not fenced.
    fresh = Producer(FIRST_ID, 0)
    assert desk.verify(fresh, P0) == [WAIT]
    assert desk.end(fresh, is_commit=False).error is WAIT
    assert desk.end(producer).error is WAIT
    desk.write_markers()
    stored = desk.stored()
    assert (stored.producer_id, stored.producer_epoch, stored.next_producer_id) == (FIRST_ID, 0, -1)
    assert stored.previous_producer_id == 77
    assert [desk.end(producer) for _ in range(2)] == [reply] * 2
    assert desk.end(producer, is_commit=False).error is STATE
    assert desk.end(Producer(77, LAST - 1)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.add(fresh) is NONE
    assert desk.end(producer).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_abort_of_nothing_at_the_last_epoch_needs_a_fresh_id() -> None:
    desk = at_epoch(LAST)
    assert desk.end(Producer(77, LAST), is_commit=False) == EndTransactionReply(NONE, FIRST_ID, 0)
    assert desk.state == "CompleteAbort"
    assert desk.end(Producer(77, LAST), is_commit=False) == EndTransactionReply(NONE, FIRST_ID, 0)


def test_version_1_needs_no_fresh_id() -> None:
    desk = at_epoch(LAST)
    desk.add(Producer(77, LAST), version=1)
    assert desk.end(Producer(77, LAST), version=1) == EndTransactionReply(NONE)
    assert desk.write_markers().producer_epoch == LAST


def test_a_request_for_a_fresh_id_changes_nothing() -> None:
    desk = at_epoch(LAST)
    desk.add(Producer(77, LAST))
    stored = desk.stored()
    desk.is_holding = True
    desk.fresh_id = lambda: None  # type: ignore[method-assign,assignment,return-value]
    assert desk.replies[desk.start_end(Producer(77, LAST))] == NeedsProducerId()
    assert (desk.stored(), desk.in_flight) == (stored, [])


@pytest.mark.parametrize("is_commit", [True, False])
def test_who_is_fenced_at_the_last_epoch_is_not_told_the_one_that_no_client_gets(is_commit: bool) -> None:
    """KAFKA-20090: such an abort was taken for a retry."""
    desk = at_epoch(LAST)
    producer = Producer(77, LAST)
    desk.add(producer)
    desk.wait(70_000)
    assert desk.stored().producer_epoch == EPOCH_MAX
    assert desk.end(producer, is_commit=is_commit).error is FENCED
    desk.write_markers()
    assert desk.end(producer, is_commit=is_commit).error is FENCED
    spent = Producer(77, EPOCH_MAX)
    assert desk.end(spent, is_commit=is_commit).error is FENCED
    assert desk.end(spent, is_commit=is_commit, version=1).error is FENCED
    assert desk.add(spent) is FENCED
    assert desk.producer() == Producer(FIRST_ID, 0)


# --- records of others ------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.PREPARE_ABORT, S.PREPARE_COMMIT])
def test_an_end_of_no_partition_that_was_only_decided_is_completed_by_the_next_process(state: S) -> None:
    """Kafka writes an abort of nothing in two batches."""
    desk = at_epoch(EPOCH, state, version=2)
    assert (desk.orders, desk.machine.markers.left) == ({}, {})
    assert desk.stored().state.name.startswith("COMPLETE")


def test_a_process_that_can_not_write_that_end_tries_again() -> None:
    desk = at_epoch(EPOCH, S.EMPTY)
    desk.records += at_epoch(EPOCH, S.PREPARE_ABORT, version=2).records[:1]
    desk.is_holding = True
    desk.open()
    desk.refuse()
    desk.commit()
    assert desk.state == "CompleteAbort"


@pytest.mark.parametrize("late_commit", [True, False])
def test_an_end_that_the_network_held_back_does_not_end_the_next_transaction(late_commit: bool) -> None:
    """KAFKA-17754: TCP sends again what a cut held back, long after the client has come by another
    connection. Found under a coordinator that was isolated for eight seconds: a torn transaction."""
    first, second = CLIENT._replace(connection=1), CLIENT._replace(connection=2)
    desk = TransactionDesk()
    producer = desk.producer(client=first)
    assert desk.add(producer, version=1, client=first) is NONE
    assert desk.end(producer, version=1, client=second).error is NONE  # asked again; the first one is late
    desk.write_markers()
    assert desk.add(producer, P1, version=1, client=second) is NONE
    before = desk.stored()
    late = desk.start_end(producer, is_commit=late_commit, version=1, client=first)
    assert desk.replies[late] == LeftConnection()
    assert desk.stored() == before
    assert desk.add(producer, P0, version=1, client=first) is NONE, "a late addition does no harm"
    late = desk.start_end(producer, is_commit=late_commit, version=1, client=first)
    assert desk.replies[late] == LeftConnection()
    third = CLIENT._replace(connection=3)  # a client that did mean it has connected again
    assert desk.end(producer, version=1, client=third).error is NONE
    assert desk.stored().partitions == {P0, P1}


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_while_an_end_is_decided_only_its_owner_is_told_to_wait(state: S) -> None:
    desk = at_epoch(EPOCH, state, partitions=frozenset({P0}), version=2)
    assert desk.end(Producer(77, EPOCH)).error is WAIT
    assert desk.end(Producer(77, EPOCH + 2)).error is FENCED
    assert desk.end(Producer(78, EPOCH)).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_which_connection_sent_last_is_known_by_ends_and_additions_and_asked_of_version_1_alone() -> None:
    unknown, first, second = (CLIENT._replace(connection=number) for number in (0, 1, 2))
    desk = TransactionDesk()
    producer = desk.producer(client=first)
    desk.add(producer, version=1, client=second)
    assert desk.replies[desk.start_end(producer, version=1, client=first)] == LeftConnection()
    assert desk.end(producer, version=1, client=second).error is NONE, "the last one has not left"
    desk.write_markers()
    desk.add(producer, version=1, client=first)
    assert desk.end(producer, version=1, client=unknown).error is NONE, "one without a number"

    desk = TransactionDesk()
    producer = desk.producer(client=first)
    desk.add(producer, version=1, client=first)
    desk.end(producer, version=1, client=second)
    desk.write_markers()
    desk.add(producer, version=1, client=NO_CLIENT)
    assert desk.replies[desk.start_end(producer, version=1, client=first)] == LeftConnection()
    assert desk.end(producer, version=2, client=first).error is NONE
