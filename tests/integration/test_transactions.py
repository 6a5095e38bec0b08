"""Transactions of stock producers, end to end: what readers of committed records see, and how they end where
a process, a topic or the producer itself is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from controller.core.events import FinalizeUpgrade, Process, UpgradeFinalized
from springtide.levels import SUPPORTED, TRANSACTIONS, Level
from tests.kit.dataplane.transacting import (
    GROUP,
    OTHER,
    TIMEOUT_S,
    TOPIC,
    a_cluster,
    a_producer,
    committed,
    in_thread,
    owner_of,
    run,
    send,
    until_committed,
    written,
)


def test_commits_are_seen_and_aborts_are_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:

            def produce() -> None:
                producer = a_producer(cluster.bootstrap())
                for number, ends in enumerate(
                    (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
                ):
                    producer.begin_transaction()
                    send(producer, b"%d in 0" % number, partition=0)
                    send(producer, b"%d in 1" % number, partition=1)
                    ends(TIMEOUT_S)

            await in_thread(produce)
            await until_committed(cluster, [b"0 in 0", b"2 in 0", b"0 in 1", b"2 in 1"])
            assert await written(cluster) == [
                b"%d in %d" % (number, partition) for partition in (0, 1) for number in (0, 1, 2)
            ]

    run(story)


def test_what_is_open_is_seen_only_by_readers_of_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            producer = await in_thread(a_producer, cluster.bootstrap())
            producer.begin_transaction()
            await in_thread(send, producer, b"open")
            plain = Producer({"bootstrap.servers": cluster.bootstrap()})
            await in_thread(send, plain, b"behind it")
            assert (await committed(cluster), await written(cluster)) == ([], [b"open", b"behind it"])
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"open", b"behind it"])

    run(story)


def test_who_takes_an_id_over_fences_its_owner_and_aborts_what_was_open(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            first = await in_thread(a_producer, cluster.bootstrap())
            first.begin_transaction()
            await in_thread(send, first, b"of the first")
            second = await in_thread(a_producer, cluster.bootstrap())
            second.begin_transaction()
            await in_thread(send, second, b"of the second")
            with pytest.raises(KafkaException) as fenced:
                await in_thread(first.commit_transaction, TIMEOUT_S)
            assert fenced.value.args[0].code() == KafkaError._FENCED
            await in_thread(second.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"of the second"])

    run(story)


def test_a_transaction_that_is_open_for_too_long_is_aborted(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            producer = await in_thread(a_producer, cluster.bootstrap(), **{"transaction.timeout.ms": 1_000})
            producer.begin_transaction()
            await in_thread(send, producer, b"late")
            plain = Producer({"bootstrap.servers": cluster.bootstrap()})
            await in_thread(send, plain, b"behind it")
            await until_committed(cluster, [b"behind it"])
            with pytest.raises(KafkaException):
                await in_thread(producer.commit_transaction, TIMEOUT_S)

    run(story)


def transform(bootstrap: str, count: int, *, commits: bool) -> None:
    """Read so many records of OTHER, write each in upper case, and commit their offsets, in one
    transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    producer = a_producer(bootstrap)
    try:
        consumer.subscribe([OTHER])
        messages: list[Any] = []
        until = monotonic() + TIMEOUT_S
        while len(messages) < count:
            assert monotonic() < until, f"{len(messages)} of {count} read"
            messages += consumer.consume(count - len(messages), 0.5)
        producer.begin_transaction()
        send(producer, *(message.value().upper() for message in messages))
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
        )
        (producer.commit_transaction if commits else producer.abort_transaction)(TIMEOUT_S)
    finally:
        consumer.close()


def test_offsets_are_committed_with_what_was_made_of_the_records(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            plain = Producer({"bootstrap.servers": cluster.bootstrap()})
            await in_thread(send, plain, *(b"value %d" % number for number in range(6)), topic=OTHER)
            for commits in (True, False, True):
                await in_thread(transform, cluster.bootstrap(), 3, commits=commits)
            await until_committed(cluster, [b"VALUE %d" % number for number in range(6)])
            assert len(await written(cluster)) == 9

    run(story)


def test_a_transaction_outlives_its_coordinator(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path, 1, 2, 3) as cluster:
            producer = await in_thread(a_producer, cluster.bootstrap())
            producer.begin_transaction()
            await in_thread(send, producer, b"first")
            owner = owner_of(cluster)
            await cluster.coordinators.pop(owner).kill()
            await in_thread(send, producer, b"second", partition=1)
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            assert owner_of(cluster) != owner
            await until_committed(cluster, [b"first", b"second"])

    run(story)


def test_a_transaction_outlives_the_leader_of_a_partition(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path, 1, 2, 3) as cluster:
            producer = await in_thread(a_producer, cluster.bootstrap())
            producer.begin_transaction()
            await in_thread(send, producer, b"first", partition=0)
            await in_thread(send, producer, b"first", partition=1)
            topic_id = cluster.controller.image.topic_ids[TOPIC]
            await cluster.wait_isr(topic_id, 1, 2, 3)
            await cluster.brokers.pop(cluster.controller.state(topic_id).leader).kill()
            await in_thread(send, producer, b"second", partition=0)
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"first", b"second", b"first"])

    run(story)


def test_markers_that_no_leader_took_are_written_by_the_next_coordinator(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path, 1, 2, 3) as cluster:
            cluster.controller.create_topic("alone", ((3,),))
            producer = await in_thread(a_producer, cluster.bootstrap())
            producer.begin_transaction()
            await in_thread(send, producer, b"first")
            await in_thread(send, producer, b"second", topic="alone")
            await cluster.brokers.pop(3).kill()
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"first"])
            await cluster.coordinators.pop(owner_of(cluster)).kill()
            await cluster.start(3)
            await until_committed(cluster, [b"second"], topic="alone", partitions=1)
            producer.begin_transaction()
            await in_thread(send, producer, b"third")
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"first", b"third"])

    run(story)


def test_a_topic_that_is_deleted_meanwhile_needs_no_marker(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            producer = await in_thread(a_producer, cluster.bootstrap())
            producer.begin_transaction()
            await in_thread(send, producer, b"kept")
            await in_thread(send, producer, b"gone", topic=OTHER)
            cluster.controller.delete_topic(OTHER)
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"kept"])
            producer.begin_transaction()
            await in_thread(send, producer, b"next")
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"kept", b"next"])

    run(story)


def test_a_cluster_has_transactions_from_its_level_on_without_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path, level=Level(TRANSACTIONS.since - 1)) as cluster:
            with pytest.raises(KafkaException) as refused:
                await in_thread(a_producer, cluster.bootstrap())
            assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            controller = Process(
                kind="controller",
                process_id="c",
                name="c",
                version="test",
                levels=SUPPORTED,
                is_running=True,
                is_active=True,
            )
            raised = FinalizeUpgrade(wall_ms=1, actor="test", controllers=(controller,))
            assert isinstance(cluster.controller.submit(raised), UpgradeFinalized)
            producer = await in_thread(a_producer, cluster.bootstrap())
            producer.begin_transaction()
            await in_thread(send, producer, b"committed")
            await in_thread(producer.commit_transaction, TIMEOUT_S)
            await until_committed(cluster, [b"committed"])

    run(story)


def with_kafka_python(bootstrap: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id="python")
    producer.init_transactions()
    for value, ends in (
        (b"committed", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.send(TOPIC, value, partition=0).get(TIMEOUT_S)
        ends()
    producer.begin_transaction()
    producer.send(TOPIC, b"again", partition=0)
    producer.send_offsets_to_transaction(
        {kafka.TopicPartition(OTHER, 0): kafka.OffsetAndMetadata(0, "", -1)}, GROUP
    )
    producer.commit_transaction()
    producer.close()


def with_aiokafka(bootstrap: str) -> None:
    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="asyncio")
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(TOPIC, b"committed", partition=0)
            await producer.begin_transaction()
            await producer.send_and_wait(TOPIC, b"aborted", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(TOPIC, b"again", partition=0)
                await producer.send_offsets_to_transaction({aiokafka.TopicPartition(OTHER, 0): 0}, GROUP)
        finally:
            await producer.stop()

    asyncio.run(produce())


@pytest.mark.parametrize("produce", [with_kafka_python, with_aiokafka])
def test_other_clients_commit_and_abort(tmp_path: Path, produce: Callable[[str], None]) -> None:
    async def story() -> None:
        async with a_cluster(tmp_path) as cluster:
            await in_thread(produce, cluster.bootstrap())
            await until_committed(cluster, [b"committed", b"again"])
            assert await written(cluster) == [b"committed", b"aborted", b"again"]

    run(story)
