"""Who finds coordinators in Metadata: a client, how it asks, and over which connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.handlers.table import HANDLERS as OF_COORDINATOR
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers import metadata
from springtide.wire.apis import ApiKey
from tests.kit.springtide.asking import answer_of

JAVA, PYTHON = "apache-kafka-java 4.4.0", "kafka-python 3.0.12"
LIBRDKAFKA, OLD_BINDING = "librdkafka 2.16.0", "confluent-kafka-python 2.8.0-rdkafka-2.8.0"
BINDING, NAMED_AS_PLAIN = "confluent-kafka-python 2.16.1-rdkafka-2.16.0", "librdkafka 2.16.1-rdkafka-2.16.0"
SARAMA, FRANZ, PLATFORMATIC = "sarama v1.61.1", "kgo v1.22.2", "platformatic-kafka 1.35.0"
NONE = "unknown"
AIOKAFKA, KAFKAJS, OTHER_UNNAMED, KAFKA_GO, UNNAMED_FRANZ = 5, 6, 7, 8, 13
"""Versions of Metadata that clients ask in which do not name themselves."""
NAMED, ALL, NODES = [{"name": "t", "topic_id": None}], None, list[Any]()


def nodes(software: str, version: int, topics: list[Any] | None, **asked: Any) -> list[int]:
    view = ClusterView()
    broker = BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(1), host="store", port=9092)
    coordinator = BrokerEndpoint(broker_id=1001, broker_epoch=BrokerEpoch(1), host="coord", port=9192)
    view.apply(UpdateBatch(full=True, brokers=(broker,), coordinators=(coordinator,)), now_ms=0)
    context = SimpleNamespace(
        view=view,
        is_view_complete=lambda: True,
        first_uses=SimpleNamespace(is_making=lambda name: True),
    )
    handle: Any = OF_COORDINATOR[ApiKey.METADATA] if asked.pop("at_coordinator", False) else metadata.handle
    fields = {"topics": topics, "allow_auto_topic_creation": False}
    answer = answer_of(handle, ApiKey.METADATA, version, fields, context=context, software=software, **asked)
    return [one.node_id for one in answer.brokers]


@pytest.mark.parametrize("software", [PYTHON])
@pytest.mark.parametrize("topics", [NAMED, ALL, NODES])
@pytest.mark.parametrize("may_be_members", [False, True])
def test_who_keeps_the_coordinators_address_never_finds_one_there(
    software: str, topics: Any, may_be_members: bool
) -> None:
    assert nodes(software, 12, topics, may_be_members=may_be_members) == [1]


@pytest.mark.parametrize(
    ("software", "version"),
    [
        (JAVA, 13),
        (LIBRDKAFKA, 13),
        (OLD_BINDING, 12),
        (NAMED_AS_PLAIN, 13),
        (SARAMA, 11),
        (FRANZ, 13),
        (PLATFORMATIC, 12),
        (NONE, KAFKAJS),
        (NONE, OTHER_UNNAMED),
        (NONE, UNNAMED_FRANZ),
    ],
)
def test_members_find_coordinators_where_they_ask_and_tools_that_ask_for_all_topics_do_not(
    software: str, version: int
) -> None:
    assert nodes(software, version, NAMED) == [1, 1001]
    assert nodes(software, version, NODES) == [1, 1001]
    assert nodes(software, version, ALL) == [1]
    assert nodes(software, version, ALL, may_be_members=True) == [1, 1001]


@pytest.mark.parametrize("topics", [NAMED, ALL, NODES])
@pytest.mark.parametrize("software", [BINDING, "rust-rdkafka 0.40.0-rdkafka-3.0.0"])
def test_bindings_of_a_librdkafka_that_forgets_nodes_find_them_always(software: str, topics: Any) -> None:
    assert nodes(software, 13, topics) == [1, 1001]


@pytest.mark.parametrize("topics", [NAMED, ALL, NODES])
@pytest.mark.parametrize("version", [AIOKAFKA, KAFKA_GO])
def test_aiokafka_and_kafka_go_find_them_always(topics: Any, version: int) -> None:
    assert nodes(NONE, version, topics) == [1, 1001]


def test_in_version_0_an_empty_list_asks_for_all_topics() -> None:
    assert nodes(SARAMA, 0, NODES) == [1]


@pytest.mark.parametrize(
    ("software", "found"), [(SARAMA, [1, 1001]), (FRANZ, [1, 1001]), (LIBRDKAFKA, [1]), (PYTHON, [1])]
)
def test_who_comes_to_a_coordinator_as_a_member_keeps_it(software: str, found: list[int]) -> None:
    """librdkafka's tools come there, too, and its members do without."""
    assert nodes(software, 11, ALL, at_coordinator=True) == found
