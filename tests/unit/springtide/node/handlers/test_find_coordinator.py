"""FindCoordinator in every version: who serves a group, why nobody does, and Metadata that lists who does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import NO_COORDINATOR, PartitionState, Shard, TopicState, WriterId
from springtide.contract.session import ListenerAddress
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.levels import TRANSACTIONS, UNTOLD, Level
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers import describe_cluster, find_coordinator, metadata
from springtide.node.sharding import GROUPS_TOPIC, HASHED_CHARS_MAX, TRANSACTIONS_TOPIC, shard_of
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.asking import answer_of

KEY = ApiKey.FIND_COORDINATOR
GROUP, SHARD = "g", 3
TOPIC = TopicState(topic_id="C" * 22, topic=GROUPS_TOPIC, partitions=50, replication_factor=1)
COORDINATOR = BrokerEndpoint(broker_id=1001, broker_epoch=BrokerEpoch(8), host="coord", port=9192, rack="r")
TRANSACTION = "payments"
OF_TRANSACTIONS = TopicState(topic_id="T" * 22, topic=TRANSACTIONS_TOPIC, partitions=50, replication_factor=1)
BEFORE = Level(TRANSACTIONS.since - 1)
DEAD = BrokerEndpoint(broker_id=1001, broker_epoch=BrokerEpoch(8), host="coord", port=9192, active=False)


STOPS = {2: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
"""By version; librdkafka's is 2."""


class Nothing:
    """The rights of a client without any."""

    principal = "User:alice"

    def may(self, *_: object, **__: object) -> bool:
        return False


def shard(owner: int, topic: TopicState = TOPIC, number: int = SHARD) -> PartitionState:
    return PartitionState(
        topic_id=topic.topic_id,
        topic=topic.topic,
        partition=number,
        replicas=(1,),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
        isr=(1,),
        min_insync_replicas=1,
        shard=Shard(owner=owner, writer=WriterId(7)),
    )


def cluster_view(**told: Any) -> ClusterView:
    view = ClusterView()
    broker = BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(1), host="store", port=9092)
    view.apply(UpdateBatch(full=True, brokers=(broker,), **told), now_ms=0)
    return view


def serving_view() -> ClusterView:
    return cluster_view(coordinators=(COORDINATOR,), topics=(TOPIC,), partitions=(shard(1001),))


def ask(
    view: ClusterView,
    version: int,
    key: str,
    key_type: int = 0,
    *,
    is_view_complete: bool = True,
    level: Level = TRANSACTIONS.since,
    rights: Any = None,
) -> Any:
    asked = {"key": key, "key_type": key_type} if version < 4 else {"coordinator_keys": [key]}
    answer = answer_of(
        find_coordinator.handle,
        KEY,
        version,
        {"key_type": key_type} | asked,
        context=SimpleNamespace(
            view=view,
            is_view_complete=lambda: is_view_complete,
            level=lambda: level if is_view_complete else UNTOLD,
        ),
        rights=rights,
    )
    if version < 4:
        return answer
    (one,) = answer.coordinators
    assert one.key == key
    return one


@pytest.mark.parametrize("version", range(APIS[KEY].version_max + 1))
def test_a_group_is_served_by_the_owner_of_its_shard(version: int) -> None:
    found = ask(serving_view(), version, GROUP)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1001, "coord", 9192)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"topics": (TOPIC,)}, find_coordinator.NOT_ADMITTED),
        ({"coordinators": (DEAD,)}, find_coordinator.NOT_ALIVE),
        ({"coordinators": (COORDINATOR,)}, find_coordinator.NOT_CREATED.format(GROUPS_TOPIC)),
        ({"coordinators": (COORDINATOR,), "topics": (TOPIC,)}, find_coordinator.NOT_OWNED),
        (
            {"coordinators": (COORDINATOR,), "topics": (TOPIC,), "partitions": (shard(NO_COORDINATOR),)},
            find_coordinator.NOT_OWNED,
        ),
    ],
)
def test_where_nobody_serves_a_group_its_clients_are_told_why(told: dict[str, Any], reason: str) -> None:
    found = ask(cluster_view(**told), 4, GROUP)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert found.error_message == reason


@pytest.mark.parametrize("version", range(APIS[KEY].version_max + 1))
def test_where_there_never_was_a_coordinator_a_broker_is_named_which_refuses(version: int) -> None:
    found = ask(cluster_view(), version, GROUP)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "store", 9092)


def test_a_process_that_does_not_know_the_cluster_yet_lets_clients_of_groups_wait() -> None:
    found = ask(cluster_view(), 4, GROUP, is_view_complete=False)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- transactional ids ---

OF_EACH_TYPE = pytest.mark.parametrize("version", range(1, APIS[KEY].version_max + 1))


@OF_EACH_TYPE
def test_a_transactional_id_is_served_by_the_owner_of_its_shard(version: int) -> None:
    state = shard(1001, OF_TRANSACTIONS, shard_of(TRANSACTION, 50))
    view = cluster_view(coordinators=(COORDINATOR,), topics=(TOPIC, OF_TRANSACTIONS), partitions=(state,))
    found = ask(view, version, TRANSACTION, 1)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1001, "coord", 9192)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"topics": (TOPIC,)}, find_coordinator.NOT_ADMITTED),
        ({"coordinators": (DEAD,)}, find_coordinator.NOT_ALIVE),
        (
            {"coordinators": (COORDINATOR,), "topics": (TOPIC,), "partitions": (shard(1001),)},
            find_coordinator.NOT_CREATED.format(TRANSACTIONS_TOPIC),
        ),
        ({"coordinators": (COORDINATOR,), "topics": (OF_TRANSACTIONS,)}, find_coordinator.NOT_OWNED),
    ],
)
def test_where_nobody_serves_a_transactional_id_its_producer_waits(told: dict[str, Any], reason: str) -> None:
    found = ask(cluster_view(**told), 4, TRANSACTION, 1)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert found.error_message == reason


@OF_EACH_TYPE
def test_below_their_level_transactions_are_refused_by_the_code_on_which_each_client_stops(
    version: int,
) -> None:
    found = ask(serving_view(), version, TRANSACTION, 1, level=BEFORE, rights=Nothing())
    assert found.error_code == STOPS.get(version, ErrorCode.UNSUPPORTED_VERSION)
    assert found.error_message == find_coordinator.NO_TRANSACTIONS


@OF_EACH_TYPE
def test_where_there_never_was_a_coordinator_transactions_are_refused_so_too(version: int) -> None:
    found = ask(cluster_view(), version, TRANSACTION, 1)
    assert found.error_code == STOPS.get(version, ErrorCode.UNSUPPORTED_VERSION)
    assert found.error_message == find_coordinator.NOT_ADMITTED


def test_a_process_that_does_not_know_the_level_yet_lets_producers_wait() -> None:
    found = ask(cluster_view(), 4, TRANSACTION, 1, is_view_complete=False)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_who_may_not_describe_a_transactional_id_is_not_told_who_serves_it() -> None:
    found = ask(serving_view(), 4, TRANSACTION, 1, rights=Nothing())
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert found.error_message == find_coordinator.DENIED_TRANSACTION


def test_keys_of_no_known_type_have_no_coordinator() -> None:
    assert ask(serving_view(), 4, GROUP, 2).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [3, 4])
def test_more_than_can_be_hashed_while_others_wait_is_refused(version: int) -> None:
    found = ask(serving_view(), version, "k" * (HASHED_CHARS_MAX + 1))
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert found.error_message == find_coordinator.TOO_LONG


def test_several_groups_are_answered_in_their_order() -> None:
    fields = {"key_type": 0, "coordinator_keys": ["elsewhere", GROUP]}
    context = SimpleNamespace(view=serving_view(), is_view_complete=lambda: True)
    answer = answer_of(find_coordinator.handle, KEY, 4, fields, context=context)
    assert [(one.key, one.node_id) for one in answer.coordinators] == [("elsewhere", -1), (GROUP, 1001)]


def test_metadata_lists_coordinators_after_brokers_and_describe_cluster_does_not() -> None:
    context = SimpleNamespace(view=serving_view(), is_view_complete=lambda: True)
    listed = answer_of(metadata.handle, ApiKey.METADATA, 12, {"topics": []}, context=context)
    assert [(one.node_id, one.host, one.rack) for one in listed.brokers] == [
        (1, "store", None),
        (1001, "coord", "r"),
    ]
    described = answer_of(describe_cluster.handle, ApiKey.DESCRIBE_CLUSTER, 0, {}, context=context)
    assert [one.broker_id for one in described.brokers] == [1]


@pytest.mark.parametrize(
    ("listener", "brokers", "coordinator", "error"),
    [
        ("", {1: "store", 1001: "coord"}, "coord", ErrorCode.NONE),
        ("CLIENTS", {1: "public-store", 1001: "public-coord"}, "public-coord", ErrorCode.NONE),
        ("STAFF", {1: "staff-store"}, "", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_client_is_told_the_addresses_of_the_listener_that_it_came_by(
    listener: str, brokers: dict[int, str], coordinator: str, error: ErrorCode
) -> None:
    """KIP-103. A node without that listener is none that the client could reach."""

    def at(host: str) -> ListenerAddress:
        return ListenerAddress(host=host, port=9093, protocol="SSL")

    store = BrokerEndpoint(
        broker_id=1,
        broker_epoch=BrokerEpoch(1),
        host="store",
        port=9092,
        listeners={"CLIENTS": at("public-store"), "STAFF": at("staff-store")},
    )
    view = serving_view()
    coord = msgspec.structs.replace(COORDINATOR, listeners={"CLIENTS": at("public-coord")})
    view.apply(UpdateBatch(brokers=(store,), coordinators=(coord,)), now_ms=0)
    context = SimpleNamespace(view=view, is_view_complete=lambda: True)
    listed = answer_of(
        metadata.handle, ApiKey.METADATA, 12, {"topics": []}, context=context, listener=listener
    )
    assert {one.node_id: one.host for one in listed.brokers} == brokers
    described = answer_of(
        describe_cluster.handle, ApiKey.DESCRIBE_CLUSTER, 0, {}, context=context, listener=listener
    )
    assert [one.host for one in described.brokers] == [brokers[1]]
    fields = {"key_type": 0, "coordinator_keys": [GROUP]}
    (found,) = answer_of(
        find_coordinator.handle, KEY, 4, fields, context=context, listener=listener
    ).coordinators
    assert (found.host, found.error_code) == (coordinator, error)
    assert ("STAFF" in (found.error_message or "")) is (listener == "STAFF")
