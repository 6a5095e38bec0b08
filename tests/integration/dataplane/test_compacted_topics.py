"""A compacted topic of three brokers and stock clients: what is left, on each replica, whatever happens."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest
import trio
import trio.testing

from controller.core.events import AlterReassignments, ReassignmentTarget
from dataplane.handlers.fetch import applied_round
from dataplane.shell.hosted import HostedPartition
from dataplane.storage.partition_log import PartitionLog
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import iter_records
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.gated_disk import GatedDisk
from tests.kit.dataplane.storage import read_all
from tests.kit.stock_clients import CLIENTS

CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.1",
    "min.insync.replicas": "2",
}
OFTEN = {"log.cleaner.backoff.ms": "50"}
KEYS = 20
NEWEST = 250
"""Records that may be in segments which no round has reached."""
TIMEOUT_S = 60

Table = dict[bytes, bytes]
Item = tuple[bytes, bytes | None]


def items(first: int, count: int) -> list[Item]:
    """Values of KEYS keys in turn; every seventh deletes its key."""
    return [
        (b"key %d" % (i % KEYS), None if i % 7 == 0 else b"value %d" % i) for i in range(first, first + count)
    ]


def table_of(written: list[Item]) -> Table:
    table: Table = {}
    for key, value in written:
        table.pop(key, None)
        if value is not None:
            table[key] = value
    return table


def produce_blocking(bootstrap: str, written: list[Item]) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 5,
            "compression.type": "lz4",
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
    )
    errors: list[object] = []
    for key, value in written:
        producer.produce(
            "state", value, key=key, partition=0, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert set(errors) == {None}


def consume_blocking(bootstrap: str) -> list[Item]:
    """All that a consumer gets from the beginning to the end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("state", 0, confluent_kafka.OFFSET_BEGINNING)])
    found: list[Item] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "no end"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return found
            key = message.key()
            assert isinstance(key, bytes)
            found.append((key, message.value()))
    finally:
        consumer.close()


async def produce(cluster: ClusterInProcess, written: list[Item]) -> None:
    bootstrap = cluster.bootstrap()
    await trio.to_thread.run_sync(lambda: produce_blocking(bootstrap, written))


async def consume(cluster: ClusterInProcess) -> list[Item]:
    bootstrap = cluster.bootstrap()
    return await trio.to_thread.run_sync(lambda: consume_blocking(bootstrap))


def hosted_by(cluster: ClusterInProcess, broker_id: int, topic_id: str) -> HostedPartition:
    hosted = cluster.brokers[broker_id].broker.table.get(topic_id, 0)
    assert hosted is not None
    return hosted


def log_of(cluster: ClusterInProcess, broker_id: int, topic_id: str) -> PartitionLog:
    return hosted_by(cluster, broker_id, topic_id).log


def contents(log: PartitionLog) -> list[object]:
    """What must be equal on all replicas: each batch's header, but for what compressed bytes change, and its
    records."""
    data = memoryview(read_all(log))
    return [
        (
            header._replace(crc=0, batch_length=0),
            None if header.is_control else list(iter_records(data[place : place + header.size_bytes])),
        )
        for place, header in iter_headers(data)
    ]


async def settle(cluster: ClusterInProcess, topic_id: str, *broker_ids: int) -> None:
    """Until a round that covers all but the newest records was applied to each replica, and the same."""

    def is_settled() -> bool:
        logs = [log_of(cluster, broker_id, topic_id) for broker_id in broker_ids]
        states = {(log.rounds.applied, log.rounds.is_settled, log.log_end_offset) for log in logs}
        return len(states) == 1 and all(log.rounds.reaches > log.log_end_offset - NEWEST for log in logs)

    await cluster.controller.wait_for(is_settled, "all rounds are applied")
    first, *others = [contents(log_of(cluster, broker_id, topic_id)) for broker_id in broker_ids]
    for other in others:
        assert other == first
    told = [applied_round(hosted_by(cluster, broker_id, topic_id)) for broker_id in broker_ids]
    assert None not in told
    assert len({one and one[:2] for one in told}) == 1, "readers are told that they are equal"


def test_replicas_are_compacted_alike_while_brokers_die_and_come(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            disk = cluster.disks[2] = GatedDisk()
            await cluster.form(1, 2, 3, 4, configs=OFTEN)
            topic_id = cluster.controller.create_topic("state", ((1, 2, 3),), CONFIGS)
            written = items(0, 1_000)
            await produce(cluster, written)
            await settle(cluster, topic_id, 1, 2, 3)
            found = await consume(cluster)
            assert table_of(found) == table_of(written)
            assert len(found) < 300, "of a thousand"

            # A follower dies in the middle of a pass, and the next process makes it anew.
            disk.hold("fsync", ".cleaned")
            more = items(1_000, 500)
            await produce(cluster, more)
            assert await trio.to_thread.run_sync(lambda: disk.reached.wait(TIMEOUT_S))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cluster.brokers.pop(2).kill)
                await trio.testing.wait_all_tasks_blocked()
                disk.release()
            left = list(cluster.data_dir(2).rglob("*.cleaned"))
            assert left, "the pass was not committed"
            more += items(1_500, 500)
            await produce(cluster, more[500:])
            await cluster.start(2, configs=OFTEN)
            await cluster.wait_isr(topic_id, 1, 2, 3)
            await settle(cluster, topic_id, 1, 2, 3)
            assert not any(path.exists() for path in left)

            # A learner copies a log with gaps, and the leader dies.
            move = AlterReassignments(
                wall_ms=0,
                actor="test",
                operation_id="move",
                targets=(ReassignmentTarget(topic_id=topic_id, partition=0, replicas=(1, 2, 4)),),
            )
            cluster.controller.submit(move)
            await cluster.wait_isr(topic_id, 1, 2, 4)
            await cluster.brokers.pop(1).kill()
            last = items(2_000, 500)
            await produce(cluster, last)
            await settle(cluster, topic_id, 2, 4)
            written = [*written, *more, *last]
            found = await consume(cluster)
            assert table_of(found) == table_of(written)
            assert len(found) < 300

    trio.run(run)


# kafka-python's own business; ours are still errors everywhere else.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_clients_read_from_below_the_tombstone_floor(tmp_path: Path) -> None:
    """A leader tells such readers what is gone, in a tag that only coordinators and followers know."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3, configs=OFTEN)
            configs = {**CONFIGS, "delete.retention.ms": "0"}
            topic_id = cluster.controller.create_topic("state", ((1, 2, 3),), configs)
            written: list[Item] = []
            while not written or log_of(cluster, 1, topic_id).rounds.floor <= NEWEST:
                written += items(len(written), 300)
                await produce(cluster, written[-300:])
                await settle(cluster, topic_id, 1, 2, 3)
            bootstrap = cluster.bootstrap()
            for client in CLIENTS:
                if client.name == "kcat" and shutil.which("kcat") is None:
                    continue
                count = len(await consume(cluster))  # on a busy machine a last pass comes between two of them
                read = partial(client.read, bootstrap, "state", count=count)
                found = [item.record for item in await trio.to_thread.run_sync(read)]
                values = [(record.key or b"", record.value) for record in found]
                assert table_of(values) == table_of(written), client.name

    trio.run(run)
