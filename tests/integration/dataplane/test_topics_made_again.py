"""A topic that is deleted and made again at once, by Kafka's calls and over REST, by a stock client: what is
acknowledged after the creation's answer is there (I39, acknowledged in the topic that there is). And a
running idempotent producer goes on (I23, no gap, no repeat)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from localcluster.cluster import LocalCluster

ROUNDS, RECORDS, TIMEOUT_S = 4, 25, 20
FEWER = 10
"""So many are in the old log: what goes there would stand behind them."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as started:
        started.form()
        yield started


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as client:
        yield client


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
    cluster: LocalCluster, admin: AdminClient, way: str
) -> None:
    bootstrap = cluster.bootstrap_servers
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


def run_through(create: Callable[[], None], write: Callable[[int], None]) -> int:
    """Write while another thread makes the topic again, and after it. Return the first number that was
    written after the creation's answer."""
    again = threading.Thread(target=create)
    number = 0
    first_after: int | None = None
    while first_after is None or number < first_after + RECORDS:
        if number == FEWER:
            again.start()
        if first_after is None and number > FEWER and not again.is_alive():
            first_after = number
        write(number)
        number += 1
        time.sleep(0.005)
    return first_after


def write_on_with_librdkafka(bootstrap: str, topic: str, create: Callable[[], None]) -> tuple[int, set[int]]:
    acknowledged: set[int] = set()

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        acknowledged.add(int(message.value() or b""))

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})

    def write(number: int) -> None:
        producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
        producer.poll(0)

    first_after = run_through(create, write)
    assert producer.flush(TIMEOUT_S) == 0
    return first_after, acknowledged


def write_on_with_kafka_python(
    bootstrap: str, topic: str, create: Callable[[], None]
) -> tuple[int, set[int]]:
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", enable_idempotence=True)
    sent = []
    first_after = run_through(
        create, lambda number: sent.append(producer.send(topic, b"%d" % number, partition=0))
    )
    for future in sent:
        future.get(TIMEOUT_S)
    producer.close()
    return first_after, set(range(len(sent)))


def write_on_with_aiokafka(bootstrap: str, topic: str, create: Callable[[], None]) -> tuple[int, set[int]]:
    """The topic is made again while it is at rest, after which every send failed."""

    async def run() -> tuple[int, set[int]]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        await producer.start()
        try:
            for number in range(FEWER):
                await producer.send_and_wait(topic, b"%d" % number)
            await asyncio.to_thread(create)
            after = range(FEWER, FEWER + RECORDS)
            for number in after:
                await asyncio.wait_for(producer.send_and_wait(topic, b"%d" % number, partition=0), TIMEOUT_S)
            return FEWER, set(after)
        finally:
            await producer.stop()

    return asyncio.run(run())


@pytest.mark.parametrize(
    "write_on", [write_on_with_librdkafka, write_on_with_kafka_python, write_on_with_aiokafka]
)
def test_i23_a_running_idempotent_producer_goes_on_in_the_topic_that_was_created(
    cluster: LocalCluster,
    admin: AdminClient,
    write_on: Callable[[str, str, Callable[[], None]], tuple[int, set[int]]],
) -> None:
    """The new log knows nothing of its producer (S84, a second batch is first). No send fails; nothing is
    lost, doubled or swapped."""
    bootstrap = cluster.bootstrap_servers
    topic = f"through-{write_on.__name__}"

    def create() -> None:
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(TIMEOUT_S)

    def create_again() -> None:
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        create()

    create()
    first_after, acknowledged = write_on(bootstrap, topic, create_again)
    found = [int(value) for value in read(bootstrap, topic)]
    assert found == sorted(set(found))
    assert {number for number in acknowledged if number >= first_after} <= set(found)
    assert len(found) >= RECORDS
