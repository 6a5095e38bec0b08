"""A cluster of real processes that speak TLS to each other and to clients: `up --secure`."""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from localcluster.cluster import LocalCluster

pytestmark = pytest.mark.timeout(240)

TOPIC, GROUP = "orders", "billing"
VALUES = [b"%d" % number for number in range(200)]
SOME = VALUES[:20]
SECONDS_MAX = 60.0


def test_clients_groups_and_operators_use_it_over_tls_and_a_leader_may_die() -> None:
    with LocalCluster(coordinators=1, is_secure=True) as cluster:
        assert cluster.tls is not None
        cluster.form()
        cluster.create_topic(TOPIC)
        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(cluster.tls.ca),
            "log_level": 0,
        }
        write(settings, VALUES[:100])
        for round_trip in (over_kcat, over_kafka_python, over_aiokafka):
            name = round_trip.__name__.replace("_", "-")
            cluster.create_topic(name)
            assert round_trip(cluster.bootstrap_servers, str(cluster.tls.ca), name) == SOME, name
        (partition,) = cluster.partitions(TOPIC)
        assert partition.leader is not None
        cluster.kill_broker(partition.leader)
        write(settings, VALUES[100:])
        assert sorted(read(settings, len(VALUES)), key=int) == VALUES

        told = {broker.port for broker in AdminClient(settings).list_topics(timeout=30).brokers.values()}
        nodes = [*cluster.brokers.values(), *cluster.coordinators.values()]
        assert told <= {node.port for node in nodes}, "clients are told of their own listener"
        (group,) = cluster.api.get(f"/clusters/{cluster.name}/groups")["items"]
        assert group["group_id"] == GROUP, "the controller asks coordinators over TLS"
        shown = cluster.api.get(f"/clusters/{cluster.name}/brokers")["items"]
        assert all({one["protocol"] for one in broker["listeners"]} == {"SSL"} for broker in shown)
        pages = [node.metrics() for node in nodes if node.process.is_running]
        assert all("springtide_certificate_expiry_time_seconds" in page for page in pages)


def over_kcat(bootstrap: str, ca: str, topic: str) -> list[bytes]:
    common = ("kcat", "-q", "-b", bootstrap, "-t", topic)
    over_tls = ("-X", "security.protocol=SSL", "-X", f"ssl.ca.location={ca}")
    sent = b"\n".join(SOME)
    subprocess.run([*common, *over_tls, "-P", "-X", "acks=all"], input=sent, timeout=SECONDS_MAX, check=True)
    read = [*common, *over_tls, "-C", "-o", "beginning", "-e"]
    return subprocess.run(read, capture_output=True, timeout=SECONDS_MAX, check=True).stdout.split()


def over_kafka_python(bootstrap: str, ca: str, topic: str) -> list[bytes]:
    settings = {"bootstrap_servers": bootstrap.split(","), "security_protocol": "SSL", "ssl_cafile": ca}
    producer = kafka.KafkaProducer(acks="all", **settings)
    for value in SOME:
        producer.send(topic, value)
    producer.flush(SECONDS_MAX)
    producer.close()
    consumer = kafka.KafkaConsumer(consumer_timeout_ms=int(SECONDS_MAX * 1000), **settings)
    try:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [next(consumer).value for _ in SOME]
    finally:
        consumer.close()


def over_aiokafka(bootstrap: str, ca: str, topic: str) -> list[bytes]:
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "ssl_context": create_ssl_context(cafile=ca),
    }

    async def round_trip() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(acks="all", **settings) as producer:
            for value in SOME:
                await producer.send_and_wait(topic, value)
        consumer = aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings)
        async with consumer, asyncio.timeout(SECONDS_MAX):
            return [(await consumer.getone()).value for _ in SOME]

    return asyncio.run(round_trip())


def write(settings: dict[str, Any], values: list[bytes]) -> None:
    failed: list[object] = []
    producer = Producer(settings | {"acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []


def read(settings: dict[str, Any], count: int) -> list[bytes]:
    consumer = Consumer(settings | {"group.id": GROUP, "auto.offset.reset": "earliest"})
    values: list[bytes] = []
    ends = time.monotonic() + SECONDS_MAX
    try:
        consumer.subscribe([TOPIC])
        while len(values) < count:
            assert time.monotonic() < ends, f"{len(values)} of {count} came"
            for message in consumer.consume(count, timeout=1.0):
                if (value := message.value()) is not None and message.error() is None:
                    values.append(value)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values
