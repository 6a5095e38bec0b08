"""What a broker answers about groups, with coordinators of real group machines behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from dataplane.handlers import groups
from dataplane.handlers.table import HANDLERS
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, Shard, TopicState, WriterId
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.group_lists import OUR_PREFIX
from springtide.node.sharding import GROUPS_TOPIC, shard_of
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import RequestMessage, ResponseMessage
from tests.kit.coordinator.group_shards import SHARDS, Coordinator
from tests.kit.springtide.asking import answer_of

LIST, DESCRIBE, FETCH = ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH
GROUPS = [f"g{number}" for number in range(8)]
LAST_OF_ONE = groups.OF_SEVERAL_SINCE - 1
OURS = f"{OUR_PREFIX}broker-1"


class Rights:
    """Of a client that may do what is said only."""

    principal = "User:tool"
    is_member = False

    def __init__(self, *allowed: tuple[ResourceType, str]) -> None:
        self._allowed = set(allowed)

    def may(self, _operation: Operation, of_type: ResourceType, name: str = "", **_how: object) -> bool:
        return (of_type, name) in self._allowed


class Cluster:
    """Brokers 1 and 2, and coordinators 1001 and 1002 with two of the four shards each, all asked at once.
    GROUPS have committed offset 5 of orders-0 and secrets-0. silent: coordinators that do not answer."""

    def __init__(self, *, brokers: Sequence[int] = (1, 2)) -> None:
        self.silent: set[int] = set()
        self.asked: list[int] = []
        self.coordinators = {1001 + number: Coordinator(owned=(number, number + 2)) for number in range(2)}
        for coordinator in self.coordinators.values():
            for topic in ("orders", "secrets"):
                coordinator.has_topic(topic, 1)
        for group_id in GROUPS:
            owner = self.coordinators[1001 + shard_of(group_id, SHARDS) % 2]
            places = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
            topics = [{"name": name, "partitions": places} for name in ("orders", "secrets")]
            fields = {"group_id": group_id, "generation_id_or_member_epoch": -1, "topics": topics}
            owner.ask(ApiKey.OFFSET_COMMIT, 7, **fields)
        self.view = ClusterView()
        of_groups = TopicState(topic_id="C" * 22, topic=GROUPS_TOPIC, partitions=SHARDS, replication_factor=1)
        self.view.apply(
            UpdateBatch(
                full=True,
                brokers=tuple(endpoint(one) for one in brokers),
                coordinators=(endpoint(1001), endpoint(1002)),
                topics=(of_groups,),
                partitions=tuple(shard_state(number) for number in range(SHARDS)),
            ),
            now_ms=0,
        )

    def ask(
        self, key: ApiKey, version: int, *, broker_id: int = 1, is_view_complete: bool = True, **asked: Any
    ) -> Any:
        how = {name: asked.pop(name) for name in ("rights", "client_id") if name in asked}
        context = SimpleNamespace(
            view=self.view,
            broker_id=broker_id,
            is_view_complete=lambda: is_view_complete,
            coordinator_calls=self,
        )
        return answer_of(HANDLERS[key], key, version, asked, context=context, **how)

    def start(
        self,
        answer_type: type[ResponseMessage],
        version: int,
        calls: Sequence[tuple[BrokerEndpoint, RequestMessage]],
        done: Callable[[Sequence[Any]], None],
    ) -> None:
        """Stand for CoordinatorCalls."""

        def answers() -> Iterator[Any]:
            for one, message in calls:
                assert message.API is answer_type.API
                self.asked.append(one.broker_id)
                coordinator = self.coordinators[one.broker_id]
                answer = coordinator.ask(message.API, version, client_id=OURS, **structs.asdict(message))
                yield None if one.broker_id in self.silent else answer

        done(list(answers()))


def endpoint(node_id: int) -> BrokerEndpoint:
    return BrokerEndpoint(broker_id=node_id, broker_epoch=BrokerEpoch(1), host=f"node{node_id}", port=9092)


def shard_state(number: int) -> PartitionState:
    return PartitionState(
        topic_id="C" * 22,
        topic=GROUPS_TOPIC,
        partition=number,
        replicas=(1,),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
        isr=(1,),
        min_insync_replicas=1,
        shard=Shard(owner=1001 + number % 2, writer=WriterId(7)),
    )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def rights(*allowed: tuple[ResourceType, str]) -> Any:
    return Rights(*allowed)


def listed(answer: Any) -> tuple[int, list[str]]:
    return answer.error_code, sorted(group.group_id for group in answer.groups)


@pytest.mark.parametrize("version", range(APIS[LIST].version_max + 1))
def test_the_first_broker_tells_all_groups_and_no_other_any(cluster: Cluster, version: int) -> None:
    assert listed(cluster.ask(LIST, version)) == (ErrorCode.NONE, GROUPS)
    assert listed(cluster.ask(LIST, version, broker_id=2)) == (ErrorCode.NONE, [])


def test_groups_are_filtered_and_told_with_their_state(cluster: Cluster) -> None:
    answer = cluster.ask(LIST, 5, states_filter=["Empty"])
    assert listed(answer) == (ErrorCode.NONE, GROUPS)
    assert {(one.group_state, one.group_type) for one in answer.groups} == {("Empty", "classic")}
    assert listed(cluster.ask(LIST, 5, states_filter=["Stable"])) == (ErrorCode.NONE, [])


def test_who_asks_coordinators_itself_is_told_none(cluster: Cluster) -> None:
    assert listed(cluster.ask(LIST, 5, client_id="springtide-controller")) == (ErrorCode.NONE, [])
    assert cluster.asked == []


def test_a_part_of_the_groups_is_not_told_for_all(cluster: Cluster) -> None:
    cluster.silent = {1002}
    assert listed(cluster.ask(LIST, 5)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
    cluster.silent = set()
    cluster.coordinators[1001].shards.errors[0] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert listed(cluster.ask(LIST, 5)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert listed(cluster.ask(LIST, 5, is_view_complete=False)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_without_a_live_coordinator_nobody_knows_the_groups(cluster: Cluster) -> None:
    cluster.view.apply(UpdateBatch(removed_coordinators=(1001, 1002)), now_ms=0)
    assert listed(cluster.ask(LIST, 5)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_where_there_never_was_a_coordinator_there_are_no_groups(cluster: Cluster) -> None:
    cluster.view.apply(UpdateBatch(full=True, brokers=(endpoint(1),)), now_ms=0)
    assert listed(cluster.ask(LIST, 5)) == (ErrorCode.NONE, [])


def test_a_group_that_two_coordinators_tell_is_told_once(cluster: Cluster) -> None:
    cluster.coordinators[1002] = cluster.coordinators[1001]
    _, told = listed(cluster.ask(LIST, 5))
    assert told == [one for one in GROUPS if shard_of(one, SHARDS) % 2 == 0] != []


def test_a_client_is_told_the_groups_that_it_may_describe(cluster: Cluster) -> None:
    """The coordinators let the broker see all."""
    mine = rights((ResourceType.GROUP, "g3"))
    assert listed(cluster.ask(LIST, 5, rights=mine)) == (ErrorCode.NONE, ["g3"])
    all_of_them = rights((ResourceType.CLUSTER, "kafka-cluster"), (ResourceType.CLUSTER, ""))
    assert listed(cluster.ask(LIST, 5, rights=all_of_them)) == (ErrorCode.NONE, GROUPS)


@pytest.mark.parametrize("version", range(APIS[DESCRIBE].version_max + 1))
def test_groups_of_several_coordinators_are_described_in_order(cluster: Cluster, version: int) -> None:
    answer = cluster.ask(DESCRIBE, version, broker_id=2, groups=[*GROUPS, "g0"])
    told = [(one.error_code, one.group_id, one.group_state) for one in answer.groups]
    assert told == [(ErrorCode.NONE, group_id, "Empty") for group_id in GROUPS]
    assert sorted(cluster.asked) == [1001, 1002], "each is asked once"


def test_each_group_that_is_not_described_has_its_error(cluster: Cluster) -> None:
    cluster.silent = {1002}
    mine = rights(*((ResourceType.GROUP, one) for one in GROUPS[1:]))
    answer = cluster.ask(DESCRIBE, 6, groups=GROUPS, rights=mine, include_authorized_operations=True)
    errors = {one.group_id: one.error_code for one in answer.groups}
    assert errors.pop("g0") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    for group_id, error in errors.items():
        is_silent = shard_of(group_id, SHARDS) % 2 == 1
        assert error == (ErrorCode.COORDINATOR_NOT_AVAILABLE if is_silent else ErrorCode.NONE)
    operations = {one.authorized_operations for one in answer.groups if not one.error_code}
    assert operations == {sum(1 << one for one in (3, 6, 8, 10, 11))}, "the client's, not the broker's"


@pytest.mark.parametrize("version", range(APIS[FETCH].version_min, groups.OF_SEVERAL_SINCE))
def test_the_offsets_of_one_group_are_told(cluster: Cluster, version: int) -> None:
    asked = [{"name": "orders", "partition_indexes": [0]}]
    answer = cluster.ask(FETCH, version, group_id="g1", topics=asked)
    ((topic,)) = answer.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.committed_offset, partition.error_code) == ("orders", 5, ErrorCode.NONE)


def test_offsets_of_topics_that_the_client_may_not_describe_are_refused_or_left_out(cluster: Cluster) -> None:
    mine = rights((ResourceType.GROUP, "g1"), (ResourceType.TOPIC, "orders"))
    asked = [{"name": name, "partition_indexes": [0]} for name in ("secrets", "orders")]

    def told(topics: Any, rights: Any) -> dict[str, tuple[int, int]]:
        answer = cluster.ask(FETCH, LAST_OF_ONE, group_id="g1", topics=topics, rights=rights)
        return {
            topic.name: (one.committed_offset, one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        }

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert told(asked, mine) == {"orders": (5, 0), "secrets": (-1, denied)}
    assert told(None, mine) == {"orders": (5, 0)}
    assert told(None, None) == {"orders": (5, 0), "secrets": (5, 0)}


def test_offsets_that_nobody_tells_are_an_error(cluster: Cluster) -> None:
    def error(**asked: Any) -> int:
        return int(cluster.ask(FETCH, LAST_OF_ONE, group_id="g1", topics=None, **asked).error_code)

    assert error(rights=rights()) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    cluster.silent = {1001, 1002}
    assert error() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.view.apply(UpdateBatch(removed_coordinators=(1001, 1002)), now_ms=0)
    assert error() == ErrorCode.NOT_COORDINATOR


def test_who_knows_of_several_groups_a_request_has_to_find_the_coordinator(cluster: Cluster) -> None:
    answer = cluster.ask(FETCH, groups.OF_SEVERAL_SINCE, groups=[{"group_id": "g1", "topics": None}])
    assert [one.error_code for one in answer.groups] == [ErrorCode.NOT_COORDINATOR]
