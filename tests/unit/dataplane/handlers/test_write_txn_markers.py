"""WriteTxnMarkers: each partition of each marker has its answer, when all of them are committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dataplane.core.results import AppendResult
from dataplane.core.transactions import MarkerToWrite
from dataplane.handlers import write_txn_markers
from dataplane.handlers.write_txn_markers import COMMIT_MS_MAX, MARKERS_MAX
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.produces import Produces
from springtide.levels import TRANSACTIONS, Level
from springtide.security.acls.model import Operation
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from tests.kit.springtide.asking import answers_of

NOW_MS = 77
WAITS = AppendResult(ErrorCode.NONE, 5, is_waiting=True)


class Broker:
    """It hosts partitions of "orders", each of which answers a marker with its result."""

    def __init__(self, *results: AppendResult, level: Level = TRANSACTIONS.since) -> None:
        self.markers: list[tuple[int, MarkerToWrite]] = []
        self.waiters: list[Any] = []
        self.produces = Produces(BrokerCounters())
        self.noted: list[Any] = []
        self.hosted = [self._host(number, result) for number, result in enumerate(results)]
        self.context: Any = SimpleNamespace(
            table=SimpleNamespace(get_by_name=self._find, note_waiters=self.noted.append),
            produces=self.produces,
            effects=SimpleNamespace(run=lambda *_: None),
            view=SimpleNamespace(topic_by_name=lambda _: None),
            is_view_complete=lambda: True,
            level=lambda: level,
            wall_ms=lambda: 1_000,
        )

    def _host(self, number: int, result: AppendResult) -> Any:
        def write_marker(
            marker: MarkerToWrite, *, waiter: Any, expires_ms: int, now_ms: int, **_: Any
        ) -> Any:
            assert (expires_ms, now_ms) == (NOW_MS + COMMIT_MS_MAX, NOW_MS)
            self.markers.append((number, marker))
            self.waiters.append(waiter)
            return result, ()

        role = SimpleNamespace(write_marker=write_marker)
        return SimpleNamespace(replica=SimpleNamespace(role=role), is_shard=False)

    def _find(self, topic: str, partition: int) -> Any:
        return self.hosted[partition] if topic == "orders" and partition < len(self.hosted) else None

    def ask(self, *markers: dict[str, Any], version: int = 2, rights: Any = None) -> list[Any]:
        return answers_of(
            write_txn_markers.handle,
            ApiKey.WRITE_TXN_MARKERS,
            version,
            {"markers": markers},
            context=self.context,
            now_ms=NOW_MS,
            rights=rights,
        )


def marker(producer_id: int = 7, *, commits: bool = True, **topics: list[int]) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": 3,
        "transaction_result": commits,
        "topics": [{"name": name, "partition_indexes": numbers} for name, numbers in topics.items()],
        "coordinator_epoch": 11,
        "transaction_version": 2,
    }


def told(answer: Any) -> list[tuple[int, str, int, ErrorCode]]:
    return [
        (one.producer_id, topic.name, partition.partition_index, ErrorCode(partition.error_code))
        for one in answer.markers
        for topic in one.topics
        for partition in topic.partitions
    ]


def test_an_answer_waits_for_all_of_its_markers_and_tells_of_each() -> None:
    """KAFKA-17877: there an answer went out before the last of its markers, and lacked a producer."""
    refused = AppendResult(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    broker = Broker(WAITS, refused, WAITS)
    answers = broker.ask(marker(7, orders=[0, 1]), marker(8, commits=False, absent=[4], orders=[2]))
    assert answers == []
    assert [number for number, _ in broker.markers] == [0, 1, 2]
    assert broker.markers[0][1] == MarkerToWrite(
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=11,
        outcome=Outcome.COMMIT,
        transaction_version=2,
    )
    assert broker.markers[2][1].outcome is Outcome.ABORT
    assert (broker.produces.waiting, len(broker.noted)) == (2, 2)
    broker.produces.on_complete([broker.waiters[0]], ErrorCode.NONE)
    assert answers == []
    broker.produces.on_complete([broker.waiters[2]], ErrorCode.REQUEST_TIMED_OUT)
    assert [told(answer) for answer in answers] == [
        [
            (7, "orders", 0, ErrorCode.NONE),
            (7, "orders", 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            (8, "absent", 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (8, "orders", 2, ErrorCode.REQUEST_TIMED_OUT),
        ]
    ]


def test_version_1_is_of_transactions_of_version_1() -> None:
    broker = Broker(AppendResult(ErrorCode.NONE, 5))
    broker.ask(marker(orders=[0]), version=1)
    assert broker.markers[0][1].transaction_version == 0


def test_a_coordinator_numbers_its_requests_and_names_leaderships() -> None:
    broker = Broker(*[AppendResult(ErrorCode.NONE, 5)] * 3)
    numbered = marker(orders=[0, 1, 2]) | {"attempt": 12}
    numbered["topics"][0]["leader_epochs"] = [4, 6]
    broker.ask(numbered)
    assert [(one.attempt, one.leader_epoch) for _, one in broker.markers] == [(12, 4), (12, 6), (12, -1)]


def test_leaderships_of_no_partition_are_passed_over() -> None:
    broker = Broker(AppendResult(ErrorCode.NONE, 5))
    without = marker(orders=[0])
    without["topics"][0]["leader_epochs"] = [4, 6]
    (answer,) = broker.ask(without)
    assert told(answer) == [(7, "orders", 0, ErrorCode.NONE)]


def test_the_logs_of_coordinators_are_not_written() -> None:
    broker = Broker(WAITS)
    broker.hosted[0].is_shard = True
    (answer,) = broker.ask(marker(orders=[0]))
    assert told(answer) == [(7, "orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert broker.markers == []


class Rights:
    """Of a client that may do one thing to the cluster."""

    principal = "User:tool"

    def __init__(self, allowed: Operation) -> None:
        self._allowed = allowed

    def may(self, operation: Operation, *_what: Any, **_how: Any) -> bool:
        return operation is self._allowed


@pytest.mark.parametrize("allowed", [Operation.CLUSTER_ACTION, Operation.ALTER])
def test_members_and_operators_may_end_transactions(allowed: Operation) -> None:
    (answer,) = Broker(AppendResult(ErrorCode.NONE, 5)).ask(marker(orders=[0]), rights=Rights(allowed))
    assert told(answer) == [(7, "orders", 0, ErrorCode.NONE)]


def test_others_may_not() -> None:
    broker = Broker(WAITS)
    (answer,) = broker.ask(marker(orders=[0]), rights=Rights(Operation.DESCRIBE))
    assert told(answer) == [(7, "orders", 0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    assert broker.markers == []


def test_below_the_level_that_has_transactions_no_marker_is_written() -> None:
    broker = Broker(WAITS, level=Level(TRANSACTIONS.since - 1))
    (answer,) = broker.ask(marker(orders=[0]))
    assert told(answer) == [(7, "orders", 0, ErrorCode.UNSUPPORTED_VERSION)]
    assert broker.markers == []


def test_a_request_without_a_marker_is_answered() -> None:
    assert [told(answer) for answer in Broker().ask()] == [[]]
    assert [told(answer) for answer in Broker().ask(marker())] == [[]]


def test_a_request_is_bounded() -> None:
    broker = Broker(WAITS)
    (answer,) = broker.ask(marker(orders=[0] * (MARKERS_MAX + 1)))
    assert {error for *_, error in told(answer)} == {ErrorCode.INVALID_REQUEST}
    assert broker.markers == []
