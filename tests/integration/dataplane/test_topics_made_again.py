"""A topic that is deleted and made again at once, by Kafka's calls and over REST, by a stock client: what is
acknowledged after the creation's answer is there (I39, acknowledged in the topic that there is)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from localcluster.cluster import LocalCluster

ROUNDS, RECORDS, TIMEOUT_S = 4, 25, 20
FEWER = 10
"""So many are in the old log: what goes there would stand behind them."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as started:
        started.form()
        yield started


def write(bootstrap: str, topic: str, values: list[bytes]) -> list[bytes]:
    """Return the values that were acknowledged."""
    acknowledged: list[bytes] = []

    def on_delivery(error: object, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            acknowledged.append(value)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": False})
    for value in values:
        producer.produce(topic, value, on_delivery=on_delivery)
    producer.flush(TIMEOUT_S)
    return acknowledged


def read(bootstrap: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
        found: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < end and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("way", ["kafka", "rest"])
def test_i39_what_is_acknowledged_after_the_creation_is_in_the_topic_that_was_created(
    cluster: LocalCluster, way: str
) -> None:
    bootstrap = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap})
    body = {"cluster": "prod", "partitions": 1, "replication_factor": 3}

    def by_kafka(topic: str) -> None:
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(TIMEOUT_S)

    def by_rest(topic: str) -> None:
        assert cluster.rest.post("/topics", json=body | {"name": topic}).status_code == 201

    create: Callable[[str], None] = by_kafka if way == "kafka" else by_rest
    topics = [f"again-{way}-{number}" for number in range(ROUNDS)]
    acknowledged: dict[str, list[bytes]] = {}
    for topic in topics:
        create(topic)
        old = [b"old %d" % number for number in range(FEWER)]
        assert write(bootstrap, topic, old) == old
        if way == "kafka":
            admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        else:
            assert cluster.rest.delete(f"/clusters/prod/topics/{topic}").status_code == 202
        create(topic)
        acknowledged[topic] = write(bootstrap, topic, [b"new %d" % number for number in range(RECORDS)])
    assert all(len(values) == RECORDS for values in acknowledged.values())
    assert {topic: read(bootstrap, topic) for topic in topics} == acknowledged
