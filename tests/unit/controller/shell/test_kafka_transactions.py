"""What is asked of coordinators and leaders about transactions, and what is made of the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.shell import kafka_questions
from controller.shell.client_groups import GroupsUnavailable
from controller.shell.client_transactions import (
    OpenProducer,
    TransactionAbsent,
    TransactionChanged,
    TransactionDetail,
    TransactionListing,
)
from controller.shell.clock import SystemClock
from controller.shell.kafka_transactions import KafkaTransactions
from controller.shell.outcomes import OutcomeUnknown
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.controller.kafka_node import Instead, KafkaNode, listening
from tests.kit.controller.kafka_views import ORDERS, named, view

pytestmark = pytest.mark.anyio

ROW = {
    "transactional_id": "pay-1",
    "transaction_state": "Ongoing",
    "transaction_timeout_ms": 900_000,
    "transaction_start_time_ms": 1_000,
    "producer_id": 7,
    "producer_epoch": 3,
    "topics": ({"topic": "orders", "partitions": (1, 0)},),
    "client_id": "payments-app",
    "client_host": "10.0.0.7",
}
OPEN = OpenProducer(
    producer_id=7, producer_epoch=3, coordinator_epoch=-1, first_offset=10, last_timestamp_ms=5
)


@pytest.fixture
def anyio_backend() -> str:
    """Real time, for real sockets."""
    return "asyncio"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRIED_MS_MAX", "LIST_RETRIED_MS_MAX"):
        monkeypatch.setattr(kafka_questions, name, 100)
    monkeypatch.setattr(kafka_questions, "RETRY_MS", 10)


@pytest.fixture
async def node() -> AsyncIterator[KafkaNode]:
    """Broker 1, which leads orders-0, and coordinator 1001 in one."""
    async with listening() as found:
        found.answers[ApiKey.FIND_COORDINATOR] = named(found)
        yield found


def transactions(*ports: int) -> KafkaTransactions:
    return KafkaTransactions(lambda _: view(*ports), SystemClock())


def detail(node: KafkaNode, **values: Any) -> TransactionDetail:
    return TransactionDetail(
        **{
            "transactional_id": "pay-1",
            "producer_id": 7,
            "producer_epoch": 3,
            "state": "ongoing",
            "timeout_ms": 900_000,
            "started_ms": 1_000,
            "partitions": (("orders", 0), ("orders", 1)),
            "client_id": "payments-app",
            "client_host": "10.0.0.7",
            "coordinator_id": 1001,
            "endpoint": f"127.0.0.1:{node.port}",
            **values,
        }
    )


async def test_a_list_has_the_details_of_those_that_are_live(node: KafkaNode) -> None:
    asked: list[Any] = []
    over = {"transactional_id": "old", "producer_id": 8, "transaction_state": "CompleteAbort"}
    new = {"transactional_id": "new", "producer_id": 9, "transaction_state": "OfALaterRelease"}
    told = {name: ROW[name] for name in ("transactional_id", "producer_id", "transaction_state")}

    def listed(request: Any) -> dict[str, Any]:
        asked.append(request.producer_id_filters)
        return {"transaction_states": (told, over, new)}

    def describe(request: Any) -> dict[str, Any]:
        asked.append(request.transactional_ids)
        return {"transaction_states": (ROW,)}

    node.answers |= {ApiKey.LIST_TRANSACTIONS: listed, ApiKey.DESCRIBE_TRANSACTIONS: describe}
    async with listening() as silent:
        silent.answers[ApiKey.LIST_TRANSACTIONS] = lambda _: Instead.HANG_UP
        found, errors = await transactions(node.port, silent.port).listed("prod", producer_ids=(7, 8))
    assert found == [
        TransactionListing(
            transactional_id="pay-1",
            producer_id=7,
            state="ongoing",
            producer_epoch=3,
            timeout_ms=900_000,
            started_ms=1_000,
            partitions=(("orders", 0), ("orders", 1)),
            client_id="payments-app",
            client_host="10.0.0.7",
        ),
        TransactionListing(transactional_id="old", producer_id=8, state="complete_abort"),
        TransactionListing(transactional_id="new", producer_id=9, state="unknown"),
    ]
    assert errors == [f"127.0.0.1:{silent.port}: it closed the connection"]
    assert asked == [(7, 8), ("pay-1",)]


async def test_one_is_described_by_its_coordinator(node: KafkaNode) -> None:
    kinds: list[int] = []

    def find(request: Any) -> Any:
        kinds.append(request.key_type)
        return named(node)(request)

    node.answers[ApiKey.FIND_COORDINATOR] = find
    node.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _: {"transaction_states": (ROW,)}
    assert await transactions(node.port).described("prod", "pay-1") == detail(node)
    assert kinds == [1]
    over = ROW | {"transaction_state": "CompleteCommit", "topics": (), "client_id": "", "client_host": ""}
    node.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _: {"transaction_states": (over,)}
    ended = detail(
        node, state="complete_commit", started_ms=None, partitions=(), client_id=None, client_host=None
    )
    assert await transactions(node.port).described("prod", "pay-1") == ended
    absent = {"transactional_id": "x", "error_code": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    node.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _: {"transaction_states": (absent,)}
    with pytest.raises(TransactionAbsent):
        await transactions(node.port).described("prod", "x")


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (ErrorCode.NONE, None),
        (ErrorCode.CONCURRENT_TRANSACTIONS, None),
        (ErrorCode.PRODUCER_FENCED, TransactionChanged),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionChanged),
        (ErrorCode.NOT_COORDINATOR, GroupsUnavailable),
        (ErrorCode.UNKNOWN_SERVER_ERROR, GroupsUnavailable),
    ],
)
async def test_a_producer_is_fenced_as_the_one_that_was_seen(
    node: KafkaNode, code: ErrorCode, raised: type[Exception] | None
) -> None:
    def init(request: Any) -> dict[str, Any]:
        seen = (request.transactional_id, request.producer_id, request.producer_epoch)
        assert (*seen, request.transaction_timeout_ms) == ("pay-1", 7, 3, 60_000)
        return {"error_code": code}

    node.answers[ApiKey.INIT_PRODUCER_ID] = init
    fence = transactions(node.port).fence
    if raised is None:
        await fence("prod", detail(node))
    else:
        with pytest.raises(raised):
            await fence("prod", detail(node))


async def test_a_leader_tells_what_it_holds_open(node: KafkaNode) -> None:
    rows = [
        {"producer_id": 7, "producer_epoch": 3, "last_timestamp": 5, "coordinator_epoch": -1},
        {"producer_id": 8, "producer_epoch": 0, "last_timestamp": 5},
    ]
    rows[0]["current_txn_start_offset"] = 10

    def describe(request: Any) -> dict[str, Any]:
        (topic,) = request.topics
        assert (topic.name, tuple(topic.partition_indexes)) == ("orders", (0,))
        return {"topics": ({"name": "orders", "partitions": ({"active_producers": tuple(rows)},)},)}

    node.answers[ApiKey.DESCRIBE_PRODUCERS] = describe
    assert await transactions(node.port).open_producers("prod", ORDERS) == [OPEN]
    with pytest.raises(GroupsUnavailable, match="it has no leader"):
        await transactions(node.port).open_producers("prod", ("orders", 5))


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (ErrorCode.NONE, None),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionChanged),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, TransactionChanged),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, GroupsUnavailable),
        (None, OutcomeUnknown),
    ],
)
async def test_a_leader_ends_what_was_seen_as_aborted(
    node: KafkaNode, code: ErrorCode | None, raised: type[Exception] | None
) -> None:
    def write(request: Any) -> Any:
        (marker,) = request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 0)
        assert not marker.transaction_result
        row = {"partition_index": 0, "error_code": code}
        topics = ({"name": "orders", "partitions": (row,)},)
        return {"markers": ({"producer_id": 7, "topics": topics},)} if code is not None else Instead.HANG_UP

    node.answers[ApiKey.WRITE_TXN_MARKERS] = write
    write_abort = transactions(node.port).write_abort
    if raised is None:
        await write_abort("prod", ORDERS, OPEN)
    else:
        with pytest.raises(raised):
            await write_abort("prod", ORDERS, OPEN)
