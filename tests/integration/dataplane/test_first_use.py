"""Topics that stock clients make by using them, and what each finds when that is not allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from localcluster.cluster import LocalCluster

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, coordinators=1) as started:
        started.form()
        yield started


@pytest.fixture
def open_cluster(cluster: LocalCluster) -> Iterator[LocalCluster]:
    cluster.make_topics_on_first_use()
    yield cluster
    off = {"auto.create.topics.enable": None, "default.replication.factor": None}
    cluster.api.post(f"/clusters/{cluster.name}/configs:alter", {"configs": off})


def produced(cluster: LocalCluster, topic: str, **settings: Any) -> list[Any]:
    """Return the error of each of ten records, None for one that was acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **settings})
    errors: list[Any] = []
    for number in range(10):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return errors


def test_librdkafkas_producer_makes_a_topic_and_the_audit_says_who(open_cluster: LocalCluster) -> None:
    assert produced(open_cluster, "lines", **{"client.id": "rsyslog"}) == [None] * 10
    topic = open_cluster.rest.get(f"/clusters/{open_cluster.name}/topics/lines").json()
    assert (topic["partitions"], topic["replication_factor"]) == (1, 3)
    assert topic["last_change"]["actor"].startswith("unverified:rsyslog@127.0.0.1/kafka:")
    assert topic["last_change"]["reason"] == "first use"


def test_kafka_pythons_producer_makes_a_topic(open_cluster: LocalCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=open_cluster.bootstrap_servers.split(","), acks="all")
    try:
        sent = [producer.send("events", b"%d" % number) for number in range(10)]
        assert [future.get(TIMEOUT_S).offset for future in sent] == list(range(10))
    finally:
        producer.close()


def test_a_consumer_makes_the_topic_that_it_subscribes_to_if_its_client_allows_that(
    open_cluster: LocalCluster,
) -> None:
    def names() -> set[str]:
        found = open_cluster.rest.get(f"/clusters/{open_cluster.name}/topics").json()["items"]
        return {topic["name"] for topic in found}

    asked = {"bootstrap.servers": open_cluster.bootstrap_servers, "group.id": "readers"}
    looking = Consumer(asked)  # allow.auto.create.topics=false is librdkafka's default
    looking.subscribe(["looked-for"])
    told = looking.poll(3)
    assert told is not None and told.error() is not None
    looking.close()
    assert "looked-for" not in names()
    consumer = KafkaConsumer(
        "subscribed", bootstrap_servers=open_cluster.bootstrap_servers.split(","), group_id="others"
    )
    try:
        open_cluster.wait_until(
            "the topic is there", lambda: consumer.poll(100) or "subscribed" in names() or None
        )
    finally:
        consumer.close()
    assert "subscribed" in names()


def test_it_is_off_by_default(cluster: LocalCluster) -> None:
    settings = {"message.timeout.ms": 3_000, "topic.metadata.propagation.max.ms": 1_000}
    errors = produced(cluster, "nobody-made-this", **settings)
    assert {error.name() for error in errors} <= {"_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "_MSG_TIMED_OUT"}
    assert cluster.rest.get(f"/clusters/{cluster.name}/topics/nobody-made-this").status_code == 404
