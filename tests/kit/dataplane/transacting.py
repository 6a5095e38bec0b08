"""Stock producers with transactions on a cluster in this process, and what readers see of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import confluent_kafka
import trio
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from springtide.levels import NEWEST, Level
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
