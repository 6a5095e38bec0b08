"""Transactions of stock producers, end to end: what readers of committed records see, and how they end where
a process, a topic or the producer itself is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import aiokafka
import confluent_kafka
import kafka
import pytest
import trio
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from controller.core.events import FinalizeUpgrade, Process, UpgradeFinalized
from springtide.levels import NEWEST, SUPPORTED, TRANSACTIONS, Level
from springtide.node.sharding import TRANSACTIONS_TOPIC, shard_of
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

T = TypeVar("T")

ID, TOPIC, OTHER, GROUP = "payments", "orders", "bills", "billing"
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
TIMEOUT_S = 60.0


@asynccontextmanager
async def a_cluster(root: Path, *brokers: int, level: Level = NEWEST) -> AsyncIterator[ClusterInProcess]:
    """Return brokers and two coordinators, with TOPIC of two partitions and OTHER of one."""
    async with cluster_in_process(root, level=level) as cluster:
        await cluster.form(*(brokers or (1,)))
        await cluster.form_coordinators(1001, 1002, configs=QUICK)
        replicas = brokers or (1,)
        cluster.controller.create_topic(TOPIC, (replicas, replicas))
        cluster.controller.create_topic(OTHER, (replicas,))
        yield cluster


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        with trio.fail_after(TIMEOUT_S * 2):
            await story()

    trio.run(within)


async def in_thread(work: Callable[..., T], *args: Any, **fields: Any) -> T:
    return await trio.to_thread.run_sync(partial(work, *args, **fields))


def a_producer(bootstrap: str, transactional_id: str = ID, **configs: Any) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
            **configs,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def send(producer: Producer, *values: bytes, topic: str = TOPIC, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def read(bootstrap: str, isolation: str, topic: str = TOPIC, partitions: int = 2) -> list[bytes]:
    """Return the values of all partitions up to the end that such a reader sees, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    found: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    ended: set[int] = set()
    consumer.assign([TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING) for number in found])
    until = monotonic() + TIMEOUT_S
    try:
        while len(ended) < partitions:
            assert monotonic() < until, f"only the ends of {ended} came"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
            else:
                found[partition].append(message.value() or b"")
    finally:
        consumer.close()
    return [value for number in sorted(found) for value in found[number]]


async def committed(cluster: ClusterInProcess, **fields: Any) -> list[bytes]:
    return await in_thread(read, cluster.bootstrap(), "read_committed", **fields)


async def written(cluster: ClusterInProcess, **fields: Any) -> list[bytes]:
    return await in_thread(read, cluster.bootstrap(), "read_uncommitted", **fields)


async def until_committed(cluster: ClusterInProcess, values: list[bytes], **fields: Any) -> None:
    """Wait until readers see these. Markers are written after the answer to a commit."""
    with trio.move_on_after(TIMEOUT_S):
        while await committed(cluster, **fields) != values:  # noqa: ASYNC110 - readers ask, nothing tells them
            await trio.sleep(0.1)
    assert await committed(cluster, **fields) == values


def owner_of(cluster: ClusterInProcess, transactional_id: str = ID) -> int:
    owners = dict(cluster.shard_owners(TRANSACTIONS_TOPIC))
    return owners[shard_of(transactional_id, len(owners))]


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
