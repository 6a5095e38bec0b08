"""What operators are told: descriptions and lists."""

from __future__ import annotations

import pytest

from coordinator.core.transactions.requests import (
    NO_CLIENT,
    DescribedTransaction,
    ListTransactionsReply,
    ProducerClient,
)
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import CLIENT, FIRST_ID, ID, P0, P1, TIMEOUT_MS, TransactionDesk


def test_a_transaction_is_described_as_it_is_committed() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.wait(1_000)
    desk.is_holding = True
    desk.start_add(producer, P1, P0)
    empty = DescribedTransaction(
        error=ErrorCode.NONE,
        transactional_id=ID,
        state="Empty",
        timeout_ms=TIMEOUT_MS,
        producer_id=FIRST_ID,
        producer_epoch=0,
        client=CLIENT,
    )
    assert desk.describe() == empty
    desk.commit()
    assert desk.describe() == DescribedTransaction(
        error=ErrorCode.NONE,
        transactional_id=ID,
        state="Ongoing",
        timeout_ms=TIMEOUT_MS,
        started_ms=WALL_MS + 1_000,
        producer_id=FIRST_ID,
        producer_epoch=0,
        partitions=(P0, P1),
        client=CLIENT,
    )
    desk.open()
    assert desk.describe().client == NO_CLIENT, "the next coordinator has not heard of it"


def test_who_was_refused_is_not_told_as_the_producers_client() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer)
    other = ProducerClient("another", "10.0.0.2")
    assert desk.init(client=other).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.init(owner=(FIRST_ID, 7), client=other).error is ErrorCode.PRODUCER_FENCED
    assert desk.describe().client == CLIENT
    desk.write_markers()
    assert desk.init(client=other).error is ErrorCode.NONE
    assert desk.describe().client == other


def test_an_unknown_id_is_not_found_and_an_empty_one_is_no_id() -> None:
    desk = TransactionDesk()
    assert desk.describe("unknown").error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.describe("").error is ErrorCode.INVALID_REQUEST


@pytest.fixture
def desk() -> TransactionDesk:
    """Return a desk with ids in four states: idle, open for 20 s and for 10 s, and decided."""
    desk = TransactionDesk()
    producers = {name: desk.producer(name) for name in ("idle", "long", "short", "decided")}
    desk.add(producers["long"], transactional_id="long")
    desk.wait(10_000)
    for name in ("short", "decided"):
        desk.add(producers[name], transactional_id=name)
    desk.end(producers["decided"], transactional_id="decided")
    desk.wait(10_000)
    return desk


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, {"idle", "long", "short", "decided"}),
        ({"states": ("Ongoing",)}, {"long", "short"}),
        ({"states": ("Empty", "PrepareCommit")}, {"idle", "decided"}),
        ({"states": ("Dead",)}, set()),
        ({"producer_ids": (FIRST_ID, FIRST_ID + 3, 9)}, {"idle", "decided"}),
        ({"duration_ms": 0}, {"long", "short", "decided"}),
        ({"duration_ms": 9_999}, {"long", "short", "decided"}),
        ({"duration_ms": 10_000}, {"long"}),
        ({"duration_ms": 20_000}, set()),
        ({"pattern": ""}, {"idle", "long", "short", "decided"}),
        ({"pattern": ".*d.*"}, {"idle", "decided"}),
        ({"pattern": ".*o.*", "states": ("Ongoing",), "producer_ids": (FIRST_ID + 1,)}, {"long"}),
    ],
)
def test_transactions_are_listed_that_meet_all_filters(
    desk: TransactionDesk, fields: dict[str, object], names: set[str]
) -> None:
    reply = desk.listed(**fields)
    assert (reply.error, reply.unknown_states) == (ErrorCode.NONE, ())
    assert {listed.transactional_id for listed in reply.transactions} == names


def test_a_listed_transaction_has_its_producer_and_state(desk: TransactionDesk) -> None:
    (listed,) = desk.listed(pattern="long").transactions
    assert (listed.producer_id, listed.state) == (FIRST_ID + 1, "Ongoing")


def test_unknown_states_are_named_and_an_unknown_pattern_is_refused(desk: TransactionDesk) -> None:
    reply = desk.listed(states=("ongoing", "Ongoing"))
    assert reply.unknown_states == ("ongoing",)
    assert len(reply.transactions) == 2
    refused = ListTransactionsReply(ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert desk.listed(pattern="(a|b)") == refused
