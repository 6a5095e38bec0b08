"""A topic that is deleted and made again at once, by Kafka's calls and over REST, by a stock client: what is
acknowledged after the creation's answer is there (I39, acknowledged in the topic that there is). And a
running idempotent producer goes on (I23, no gap, no repeat)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from localcluster.cluster import LocalCluster
from tests.faults.nemesis.java_producer import JavaProcess
from tests.interop.clients import NO_JARS, kafka_home

ROUNDS, RECORDS, TIMEOUT_S = 4, 25, 20
STOPPED_S = 1.5
"""Shorter than a broker's session: it is back before the controller takes it for silent."""
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


def plain_producer(bootstrap: str, acks: str = "all") -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "acks": acks, "enable.idempotence": False})


def write(producer: Producer, topic: str, values: list[bytes]) -> list[bytes]:
    """Return the values that were acknowledged."""
    acknowledged: list[bytes] = []

    def on_delivery(error: object, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            acknowledged.append(value)

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


class Desk:
    """Where topics are deleted and made again."""

    def __init__(self, cluster: LocalCluster, admin: AdminClient, way: str) -> None:
        self._cluster, self._admin, self._is_kafka = cluster, admin, way == "kafka"

    def create(self, topic: str) -> None:
        if self._is_kafka:
            self._admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(TIMEOUT_S)
        else:
            body = {"cluster": "prod", "partitions": 1, "replication_factor": 3, "name": topic}
            assert self._cluster.rest.post("/topics", json=body).status_code == 201

    def delete(self, topic: str) -> None:
        if self._is_kafka:
            self._admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        else:
            assert self._cluster.rest.delete(f"/clusters/prod/topics/{topic}").status_code == 202


OLD, NEW = ([b"%s %d" % (word, number) for number in range(RECORDS)] for word in (b"old", b"new"))


@pytest.mark.parametrize("way", ["kafka", "rest"])
def test_i39_what_is_acknowledged_after_the_creation_is_in_the_topic_that_was_created(
    cluster: LocalCluster, admin: AdminClient, way: str
) -> None:
    bootstrap, desk = cluster.bootstrap_servers, Desk(cluster, admin, way)
    topics = [f"again-{way}-{number}" for number in range(ROUNDS)]
    for topic in topics:
        desk.create(topic)
        assert write(plain_producer(bootstrap), topic, OLD[:FEWER]) == OLD[:FEWER]
        desk.delete(topic)
        desk.create(topic)
        assert write(plain_producer(bootstrap), topic, NEW) == NEW
    assert {topic: read(bootstrap, topic) for topic in topics} == dict.fromkeys(topics, NEW)


@pytest.mark.parametrize("followers", [0, 1])
def test_i39_holds_while_the_old_leader_stands_still_alone_or_with_a_follower(
    cluster: LocalCluster, admin: AdminClient, followers: int
) -> None:
    """What is sent by the old topic's metadata waits in the socket of a leader that has not heard of the
    deletion, and acks=1 needs nobody else. Over REST alone: CreateTopics is answered once that leader knows
    the new topic."""
    desk, topic = Desk(cluster, admin, "rest"), f"still-{followers}"
    desk.create(topic)
    producer = plain_producer(cluster.bootstrap_servers, acks="1")
    assert write(producer, topic, OLD[:FEWER]) == OLD[:FEWER]
    (view,) = cluster.partitions(topic)
    assert view.replicas[0] == view.leader
    stopped = [cluster.brokers[broker_id].process for broker_id in view.replicas[: followers + 1]]
    with ExitStack() as resuming:
        for process in stopped:
            resuming.callback(process.resume)
            process.pause()
        timer = threading.Timer(STOPPED_S, resuming.pop_all().close)
        timer.start()
        desk.delete(topic)
        desk.create(topic)
        acknowledged = write(producer, topic, NEW)
        timer.join()
    assert acknowledged == NEW
    committed = write(plain_producer(cluster.bootstrap_servers), topic, [b"last"])
    assert read(cluster.bootstrap_servers, topic) == NEW + committed


class Running(Protocol):
    """An idempotent producer of some client."""

    def send(self, number: int) -> None: ...

    def finish(self) -> None:
        """Wait until all is acknowledged; fail if something is not."""

    def close(self) -> None: ...


class Librdkafka:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
        self._producer = Producer(config)

    def send(self, number: int) -> None:
        self._producer.produce(self._topic, b"%d" % number, on_delivery=_demand)
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0

    def close(self) -> None:
        pass


def _demand(error: object, _message: object) -> None:
    assert error is None, error


class KafkaPython:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic, self._sent = topic, []  # type: tuple[str, list[Any]]
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), enable_idempotence=True)

    def send(self, number: int) -> None:
        self._sent.append(self._producer.send(self._topic, b"%d" % number, partition=0))

    def finish(self) -> None:
        for future in self._sent:
            future.get(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close()


class Aiokafka:
    """In a loop of its own, in a thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic, self._sent = topic, []  # type: tuple[str, list[asyncio.Future[object]]]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._producer = self._run(self._start(bootstrap))

    async def _start(self, bootstrap: str) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        return producer

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def send(self, number: int) -> None:
        self._sent.append(self._run(self._producer.send(self._topic, b"%d" % number, partition=0)))

    def finish(self) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*self._sent)

        self._run(all_of_them())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Java:
    """Apache Kafka's own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        home = kafka_home()
        if home is None:
            pytest.skip(NO_JARS)
        self._topic, self._waiting = topic, set[bytes]()
        self._process = JavaProcess(home)
        self._producer = self._process.new_producer({"bootstrap.servers": bootstrap})

    def send(self, number: int) -> None:
        value = b"%d" % number
        self._waiting.add(value)
        self._producer.produce(
            self._topic, value, partition=0, on_delivery=lambda *_: self._waiting.remove(value)
        )

    def finish(self) -> None:
        self._producer.flush()
        assert not self._waiting

    def close(self) -> None:
        del self._producer  # it is dropped before its process ends
        self._process.close()


def write_before_and_after(producer: Running, create_again: Callable[[], None]) -> int:
    """Return the first number that was written after the creation's answer."""
    for number in range(FEWER):
        producer.send(number)
    producer.finish()
    create_again()
    for number in range(FEWER, FEWER + RECORDS):
        producer.send(number)
    return FEWER


def write_all_the_time(producer: Running, create_again: Callable[[], None]) -> int:
    """As write_before_and_after, but another thread makes the topic again."""
    again = threading.Thread(target=create_again)
    number = 0
    first_after: int | None = None
    while first_after is None or number < first_after + RECORDS:
        if number == FEWER:
            again.start()
        if first_after is None and number > FEWER and not again.is_alive():
            first_after = number
        producer.send(number)
        number += 1
        time.sleep(0.005)
    return first_after


@pytest.mark.parametrize("client", [Librdkafka, KafkaPython, Aiokafka, Java])
@pytest.mark.parametrize("write_on", [write_before_and_after, write_all_the_time])
def test_i23_a_running_idempotent_producer_goes_on_in_the_topic_that_was_created(
    cluster: LocalCluster,
    admin: AdminClient,
    client: Callable[[str, str], Running],
    write_on: Callable[[Running, Callable[[], None]], int],
) -> None:
    """The new log knows nothing of its producer (S84, a second batch is first). No send fails; nothing is
    lost, doubled or swapped."""
    desk, topic = Desk(cluster, admin, "kafka"), f"{client.__name__}-{write_on.__name__}"

    def create_again() -> None:
        desk.delete(topic)
        desk.create(topic)

    desk.create(topic)
    producer = client(cluster.bootstrap_servers, topic)
    try:
        first_after = write_on(producer, create_again)
        producer.finish()
    finally:
        producer.close()
    found = [int(value) for value in read(cluster.bootstrap_servers, topic)]
    assert found == sorted(set(found))
    assert set(range(first_after, first_after + RECORDS)) <= set(found)
