"""ListTransactions at brokers, with coordinators of real machines behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from dataplane.handlers.table import HANDLERS
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import TopicState
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.sharding import TRANSACTIONS_TOPIC, shard_of
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import RequestMessage
from tests.kit.coordinator.group_shards import SHARDS, Coordinator
from tests.kit.springtide.asking import answer_of

LIST = ApiKey.LIST_TRANSACTIONS
IDS = [f"t{number}" for number in range(8)]


class Cluster:
    """Brokers 1 and 2; coordinators 1001 and 1002 with two of the four shards each, asked at once. IDS have
    an owner each. silent: coordinators that do not answer."""

    def __init__(self) -> None:
        self.silent: set[int] = set()
        self.asked: list[int] = []
        self.coordinators = {1001 + number: Coordinator(owned=(number, number + 2)) for number in range(2)}
        for transactional_id in IDS:
            owner = self.coordinators[1001 + shard_of(transactional_id, SHARDS) % 2]
            asked = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
            owner.ask(ApiKey.INIT_PRODUCER_ID, 4, **asked, producer_id=-1, producer_epoch=-1)
        self.view = ClusterView()
        topic = TopicState(
            topic_id="T" * 22, topic=TRANSACTIONS_TOPIC, partitions=SHARDS, replication_factor=1
        )
        self.view.apply(
            UpdateBatch(
                full=True,
                brokers=(endpoint(1), endpoint(2)),
                coordinators=(endpoint(1001), endpoint(1002)),
                topics=(topic,),
            ),
            now_ms=0,
        )

    def list(
        self, version: int = 2, *, broker_id: int = 1, is_view_complete: bool = True, **asked: Any
    ) -> tuple[ErrorCode, list[str]]:
        how = {name: asked.pop(name) for name in ("rights", "client_id") if name in asked}
        context = SimpleNamespace(
            view=self.view,
            broker_id=broker_id,
            is_view_complete=lambda: is_view_complete,
            coordinator_calls=self,
        )
        answer = answer_of(HANDLERS[LIST], LIST, version, asked, context=context, **how)
        return ErrorCode(answer.error_code), sorted(
            one.transactional_id for one in answer.transaction_states
        ) + list(answer.unknown_state_filters)

    def start(
        self,
        _answer_type: type,
        version: int,
        calls: Sequence[tuple[BrokerEndpoint, RequestMessage]],
        done: Callable[[Sequence[Any]], None],
    ) -> None:
        """Stand for CoordinatorCalls."""
        answers = []
        for one, message in calls:
            self.asked.append(one.broker_id)
            ours = f"{OUR_PREFIX}broker-1"
            coordinator = self.coordinators[one.broker_id]
            answer = coordinator.ask(message.API, version, client_id=ours, **structs.asdict(message))
            answers.append(None if one.broker_id in self.silent else answer)
        done(answers)


def endpoint(node_id: int) -> BrokerEndpoint:
    return BrokerEndpoint(broker_id=node_id, broker_epoch=BrokerEpoch(1), host=f"node{node_id}", port=9092)


class Rights:
    principal = "User:tool"

    def may(self, operation: Operation, of_type: ResourceType, name: str = "", **_how: object) -> bool:
        return (operation, of_type, name) == (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "t3")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.mark.parametrize("version", range(APIS[LIST].version_max + 1))
def test_the_first_broker_tells_all_transactions_and_no_other_any(cluster: Cluster, version: int) -> None:
    assert cluster.list(version) == (ErrorCode.NONE, IDS)
    assert cluster.asked == [1001, 1002]
    assert cluster.list(version, broker_id=2) == (ErrorCode.NONE, [])


def test_filters_are_passed_on_and_unknown_states_told_once(cluster: Cluster) -> None:
    assert cluster.list(state_filters=["Ongoing", "Odd"]) == (ErrorCode.NONE, ["Odd"])
    assert cluster.list(state_filters=["Empty"]) == (ErrorCode.NONE, IDS)


def test_a_client_is_told_what_it_may_describe(cluster: Cluster) -> None:
    assert cluster.list(rights=Rights()) == (ErrorCode.NONE, ["t3"])


def test_a_part_is_not_taken_for_all(cluster: Cluster) -> None:
    cluster.silent = {1002}
    assert cluster.list() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_who_asks_coordinators_itself_is_told_none(cluster: Cluster) -> None:
    assert cluster.list(client_id=f"{OUR_PREFIX}controller") == (ErrorCode.NONE, [])


def test_before_a_broker_knows_its_cluster_the_client_asks_again(cluster: Cluster) -> None:
    assert cluster.list(is_view_complete=False) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_in_a_cluster_that_never_had_transactions_there_are_none(cluster: Cluster) -> None:
    cluster.view.apply(UpdateBatch(deleted_topics=("T" * 22,)), now_ms=0)
    assert cluster.list() == (ErrorCode.NONE, [])
    assert cluster.asked == []
