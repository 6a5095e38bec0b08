"""Disks that are slow, full or broken, and logs that retention shortens, seen from a stock client."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import trio

from dataplane.core.follower import Follower
from dataplane.core.role import Offline
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.clients_in_threads import SMALL_BATCHES, TIMEOUT_S, produce, read
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.gated_disk import REACHED_S_MAX, GatedDisk
from tests.kit.dataplane.node import batch_of
from tests.kit.dataplane.one_broker import produce_fields
from tests.kit.dataplane.raw import Raw

VALUES = [b"value %d" % number for number in range(1_000)]
MORE = [b"more %d" % number for number in range(1_000)]


async def wait_renewals(cluster: ClusterInProcess, count: int) -> None:
    """Until the lease of broker 1 was renewed so many times: its heartbeats are sent and answered."""
    lease = cluster.brokers[1].broker.lease
    for _ in range(count):
        before_ms = lease.held_until_ms
        await cluster.controller.wait_for(lambda: lease.held_until_ms > before_ms, "a heartbeat is answered")  # noqa: B023


def test_s28_a_slow_fsync_stalls_neither_heartbeats_nor_produce(tmp_path: Path) -> None:
    disk = GatedDisk()
    configs = {"log.flush.interval.messages": "1", "log.flush.scheduler.interval.ms": "10"}

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            cluster.disks[1] = disk
            try:
                await cluster.form(1, configs=configs)
                topic_id = cluster.controller.create_topic("orders", ((1,),))
                await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
                disk.hold("fsync", ".log")
                offsets = await produce(cluster.bootstrap(), "orders", MORE, acks="all")
                assert offsets == list(range(1_000, 2_000))
                assert await trio.to_thread.run_sync(disk.reached.wait, REACHED_S_MAX)
                await wait_renewals(cluster, 3)
                assert await produce(cluster.bootstrap(), "orders", [b"on"], acks="all") == [2_000]
                disk.release()
                hosted = cluster.brokers[1].broker.table.get(topic_id, 0)
                assert hosted is not None
                await cluster.controller.wait_for(
                    lambda: hosted.log.recovery_point == 2_001, "the flush catches up"
                )
            finally:
                disk.release()

    trio.run(run)


def test_a_log_that_is_slow_to_create_stalls_only_the_metadata_stream(tmp_path: Path) -> None:
    disk = GatedDisk()

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            cluster.disks[1] = disk
            try:
                await cluster.form(1)
                cluster.controller.create_topic("orders", ((1,),))
                await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
                disk.hold("fsync", "slow-0")
                slow_id = cluster.controller.create_topic("slow", ((1,),))
                assert await trio.to_thread.run_sync(disk.reached.wait, REACHED_S_MAX)
                await wait_renewals(cluster, 2)
                assert await produce(cluster.bootstrap(), "orders", [b"on"], acks="all") == [1_000]
                assert cluster.brokers[1].broker.table.get(slow_id, 0) is None
                disk.release()
                assert await produce(cluster.bootstrap(), "slow", [b"there"], acks="all") == [0]
            finally:
                disk.release()

    trio.run(run)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_leader_whose_disk_fails_hands_over_and_nothing_acknowledged_is_lost(
    tmp_path: Path, error: int
) -> None:
    disk = GatedDisk()

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            cluster.disks[1] = disk
            await cluster.form(1, 2)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "1"})
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            disk.fail_writes = error
            offsets = await produce(
                cluster.bootstrap(), "orders", MORE, acks="all", **{"retry.backoff.ms": 20}
            )
            assert offsets == list(range(1_000, 2_000))
            state = cluster.controller.state(topic_id)
            assert state.leader == 2
            broker = cluster.brokers[1].broker
            hosted = broker.table.get(topic_id, 0)
            assert hosted is not None
            assert isinstance(hosted.replica.role, Offline)
            assert hosted.log.log_end_offset == 1_000
            await cluster.wait_isr(topic_id, 2)
            assert not broker.is_ready()
            # The process lives, and tells clients where to go.
            through_the_broken_one = f"127.0.0.1:{cluster.brokers[1].port}"
            assert await read(through_the_broken_one, "orders", 2_000) == VALUES + MORE

    trio.run(run)


RESERVE = {"log.dir.reserve.bytes": "1000000"}


async def wait_short(cluster: ClusterInProcess, broker_id: int) -> None:
    room = cluster.brokers[broker_id].log_dir.health.room
    await cluster.controller.wait_for(lambda: room.is_short, "the broker sees how little is left")


def test_s28_a_leader_below_its_reserve_says_so_and_goes_on_by_itself(tmp_path: Path) -> None:
    disk = GatedDisk()

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            cluster.disks[1] = disk
            await cluster.form(1, configs=RESERVE)
            topic_id = cluster.controller.create_topic("orders", ((1,),))
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            disk.free = 999_999
            await wait_short(cluster, 1)
            async with await trio.open_tcp_stream("127.0.0.1", cluster.brokers[1].port) as stream:
                raw = Raw(stream)
                await raw.begin(ApiKey.PRODUCE, 9, produce_fields("orders", batch_of()))
                (topic,) = (await raw.answer(ApiKey.PRODUCE, 9)).responses
                (answer,) = topic.partition_responses
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert answer.error_message.startswith(
                "no space: 999999 bytes free in the log directory, below the reserve of 1000000"
            )
            offsets: list[int] = []

            async def produce_more() -> None:
                offsets.extend(await produce(cluster.bootstrap(), "orders", MORE, acks="all"))

            refused = cluster.brokers[1].broker.counters.failed_produce_requests
            async with trio.open_nursery() as nursery:
                nursery.start_soon(produce_more)
                await cluster.controller.wait_for(
                    lambda: cluster.brokers[1].broker.counters.failed_produce_requests > refused,
                    "the client is refused",
                )
                disk.free = 1_250_000
            assert offsets == list(range(1_000, 2_000))
            assert cluster.controller.state(topic_id).leader == 1
            assert cluster.brokers[1].broker.is_ready()
            assert await read(cluster.bootstrap(), "orders", 2_000) == VALUES + MORE

    trio.run(run)


def test_s28_a_follower_below_its_reserve_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    disk = GatedDisk()

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            cluster.disks[2] = disk
            await cluster.form(1, 2, configs={**RESERVE, "replica.lag.time.max.ms": "1000"})
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "1"})
            await produce(cluster.bootstrap(), "orders", VALUES, acks="all")
            disk.free = 999_999
            await wait_short(cluster, 2)
            await cluster.wait_isr(topic_id, 1, 2)
            offsets = await produce(cluster.bootstrap(), "orders", MORE, acks="all")
            assert offsets == list(range(1_000, 2_000))
            assert cluster.controller.state(topic_id).isr == (1,)
            hosted = cluster.brokers[2].broker.table.get(topic_id, 0)
            assert hosted is not None
            assert hosted.log.log_end_offset == 1_000
            assert isinstance(hosted.replica.role, Follower)
            disk.free = None
            await cluster.wait_isr(topic_id, 1, 2)
            assert hosted.log.log_end_offset == 2_000

    trio.run(run)


def watermarks(bootstrap: str) -> tuple[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        low, high = consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition("orders", 0), timeout=TIMEOUT_S, cached=False
        )
        return low, high
    finally:
        consumer.close()


def first_from_zero(bootstrap: str, reset: str) -> Any:
    """The first message, or error, of a consumer that begins at offset 0."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": reset,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        return consumer.poll(TIMEOUT_S)
    finally:
        consumer.close()


def log_files(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).glob("*.log*"))


def test_what_retention_deletes_is_out_of_range_for_a_consumer_and_gone_at_followers(tmp_path: Path) -> None:
    configs = {"log.segment.bytes": "4096", "log.retention.check.interval.ms": "50"}

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, configs=configs)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "1"})
            bootstrap = cluster.bootstrap()
            await produce(bootstrap, "orders", VALUES, acks="all", **SMALL_BATCHES)
            copies = []
            for broker_id in (1, 2):
                hosted = cluster.brokers[broker_id].broker.table.get(topic_id, 0)
                assert hosted is not None
                copies.append(hosted)
            logs = [hosted.log for hosted in copies]
            await cluster.controller.wait_for(
                lambda: all(hosted.replica.high_watermark == 1_000 for hosted in copies),
                "the partition is idle: nothing is left to tell",
            )
            cluster.controller.configure_topic("orders", {"retention.bytes": "8192"})
            await cluster.controller.wait_for(
                lambda: (
                    logs[0].log_start_offset > 0
                    and logs[0].size_bytes - logs[0].segments[0].size_bytes < 8_192
                ),
                "the leader deletes all that may go",
            )
            start = logs[0].log_start_offset
            await cluster.controller.wait_for(
                lambda: logs[1].log_start_offset == start and logs[1].segments[0].next_offset > start,
                "the follower deletes",
            )
            for log in logs:
                expected = [f"{segment.base_offset:020d}.log" for segment in log.segments]
                await cluster.controller.wait_for(
                    lambda log=log, expected=expected: log_files(log.directory) == expected,
                    "the deleted files are gone",  # unlinked in a thread
                )
            assert await trio.to_thread.run_sync(watermarks, bootstrap) == (start, 1_000)
            message = await trio.to_thread.run_sync(first_from_zero, bootstrap, "earliest")
            assert (message.error(), message.offset(), message.value()) == (None, start, VALUES[start])
            refused = await trio.to_thread.run_sync(first_from_zero, bootstrap, "error")
            assert refused.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET
            assert "out of range" in str(refused.error()).lower()
            # The new start is known after a kill too.
            await cluster.brokers[1].broker.upkeep.maintenance.checkpoint_high_watermarks()
            await cluster.brokers.pop(1).kill()
            running = await cluster.start(1, configs=configs)
            table = running.broker.table
            await cluster.controller.wait_for(
                lambda: table.get(topic_id, 0) is not None, "it is hosted again"
            )
            await cluster.wait_isr(topic_id, 1, 2)
            hosted = table.get(topic_id, 0)
            assert hosted is not None
            assert hosted.log.log_start_offset >= start  # another leader's segments may end elsewhere
            assert hosted.log.log_end_offset == 1_000
            assert hosted.replica.high_watermark > start

    trio.run(run)
