"""What lies in closed segments and no longer in memory: sent from files, byte for byte, to fast and slow."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from dataplane.storage.disk import File
from springtide.node import connection as connection_module
from springtide.node.core.connection_states import Sending
from springtide.wire.apis import ApiKey
from tests.kit.dataplane.clients_in_threads import SMALL_BATCHES, produce, read
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.gated_disk import REACHED_S_MAX, GatedDisk, GatedFile
from tests.kit.dataplane.raw import Raw, list_offsets_fields

VALUES = [b"value %d " % number + b"x" * 90 for number in range(1_000)]
SMALL = {"log.segment.bytes": "10240", "log.retention.check.interval.ms": "3600000"}
LARGE = [bytes([number]) * 800_000 for number in range(8)]
TAIL_BYTES = 4_096


def on_brokers(
    tmp_path: Path, *broker_ids: int, configs: dict[str, str] | None = None
) -> Callable[..., None]:
    """Runs a test over brokers that keep next to nothing in memory."""

    def run(test: Callable[[ClusterInProcess], Awaitable[None]], disk: GatedDisk | None = None) -> None:
        async def main() -> None:
            async with cluster_in_process(tmp_path) as cluster:
                cluster.tail_bytes_max = TAIL_BYTES
                if disk is not None:
                    cluster.disks[1] = disk
                try:
                    await cluster.form(*broker_ids, configs={**SMALL, **(configs or {})})
                    await test(cluster)
                finally:
                    if disk is not None:
                        disk.release()

        trio.run(main)

    return run


def log_bytes(cluster: ClusterInProcess, broker_id: int, topic_id: str) -> bytes:
    hosted = cluster.brokers[broker_id].broker.table.get(topic_id, 0)
    assert hosted is not None
    return b"".join(path.read_bytes() for path in sorted(Path(hosted.log.directory).glob("*.log")))


class ColdFile(GatedFile):
    """A file of which nothing is ever in the page cache."""

    __slots__ = ()

    def is_cached(self, length: int, position: int) -> bool:
        return False


class ColdDisk(GatedDisk):
    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return ColdFile(os.open(path, flags, 0o644), self, path)


@pytest.mark.parametrize("disk", [None, ColdDisk()], ids=["by the loop", "by threads"])
def test_a_stock_consumer_reads_closed_segments_from_files(
    disk: GatedDisk | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "SEND_FILE_BYTES_MAX", 3_000)

    async def test(cluster: ClusterInProcess) -> None:
        topic_id = cluster.controller.create_topic("orders", ((1,),))
        await produce(cluster.bootstrap(), "orders", VALUES, acks="all", **SMALL_BATCHES)
        hosted = cluster.brokers[1].broker.table.get(topic_id, 0)
        assert hosted is not None
        assert len(hosted.log.segments) > 5
        assert not hosted.log.is_in_memory(500)
        assert await read(cluster.bootstrap(), "orders", 1_000) == VALUES

    on_brokers(tmp_path, 1)(test, disk)


def test_a_wiped_follower_gets_closed_segments_byte_for_byte(tmp_path: Path) -> None:
    async def test(cluster: ClusterInProcess) -> None:
        topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "1"})
        await produce(cluster.bootstrap(), "orders", VALUES, acks="all", **SMALL_BATCHES)
        await cluster.brokers.pop(2).kill()
        shutil.rmtree(cluster.data_dir(2))
        await cluster.wait_isr(topic_id, 1)
        await cluster.start(2, configs=SMALL)
        await cluster.wait_isr(topic_id, 1, 2)
        assert log_bytes(cluster, 2, topic_id) == log_bytes(cluster, 1, topic_id)

    on_brokers(tmp_path, 1, 2)(test)


class SlowReader:
    """A consumer with a small receive buffer, which takes its answer when it is told to."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Raw:
        sock = trio.socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
        await sock.connect(("127.0.0.1", self._port))
        self._stream = trio.SocketStream(sock)
        return Raw(self._stream)

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()


async def slow_fetch(cluster: ClusterInProcess, wire: Raw) -> None:
    """Asks for everything from offset 0 on, and waits until the broker is in the middle of sending it."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50_000_000}
    await wire.begin(
        ApiKey.FETCH,
        11,
        {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 50_000_000,
            "isolation_level": 0,
            "topics": [{"topic": "orders", "partitions": [partition]}],
        },
    )
    connections = cluster.brokers[1].broker.server._connections
    await cluster.controller.wait_for(
        lambda: any(
            0 < one._unsent_bytes < 5_000_000 and one._sending is Sending.BLOCKED for one in connections
        ),
        "the broker is in the middle of a range",
    )


def test_retention_may_delete_a_segment_that_is_being_sent(tmp_path: Path) -> None:
    async def test(cluster: ClusterInProcess) -> None:
        topic_id = cluster.controller.create_topic("orders", ((1,),), {"segment.bytes": "6000000"})
        await produce(
            cluster.bootstrap(), "orders", LARGE, acks="all", **{**SMALL_BATCHES, "batch.num.messages": 1}
        )
        hosted = cluster.brokers[1].broker.table.get(topic_id, 0)
        assert hosted is not None
        first = Path(hosted.log.directory) / f"{0:020d}.log"
        expected = first.read_bytes()
        async with SlowReader(cluster.brokers[1].port) as wire:
            await slow_fetch(cluster, wire)
            now_ms = cluster.brokers[1].broker._ports.clock.mono_ms()
            hosted.replica.role.delete_records(
                -1, waiter=lambda _result: None, expires_ms=now_ms, now_ms=now_ms
            )
            await cluster.brokers[1].broker.upkeep.maintenance.apply_retention()
            assert not first.exists()
            answer = await wire.answer(ApiKey.FETCH, 11)
        (partition,) = answer.responses[0].partitions
        assert bytes(partition.records) == expected

    on_brokers(tmp_path, 1)(test)


def test_a_reader_that_leaves_in_the_middle_of_a_range_takes_nobody_with_it(tmp_path: Path) -> None:
    async def test(cluster: ClusterInProcess) -> None:
        cluster.controller.create_topic("orders", ((1,),), {"segment.bytes": "8000000"})
        await produce(
            cluster.bootstrap(), "orders", LARGE, acks="all", **{**SMALL_BATCHES, "batch.num.messages": 1}
        )
        async with SlowReader(cluster.brokers[1].port) as wire:
            await slow_fetch(cluster, wire)
        assert await read(cluster.bootstrap(), "orders", len(LARGE)) == LARGE

    on_brokers(tmp_path, 1)(test)


def test_a_lookup_that_waits_for_the_disk_holds_nobody_up(tmp_path: Path) -> None:
    disk = GatedDisk()

    async def test(cluster: ClusterInProcess) -> None:
        topic_id = cluster.controller.create_topic("orders", ((1,),))
        await produce(cluster.bootstrap(), "orders", VALUES, acks="all", **SMALL_BATCHES)
        hosted = cluster.brokers[1].broker.table.get(topic_id, 0)
        assert hosted is not None
        async with SlowReader(cluster.brokers[1].port) as wire:
            disk.hold("pread", f"{0:020d}.")
            await wire.begin(ApiKey.LIST_OFFSETS, 7, list_offsets_fields(0))
            assert await trio.to_thread.run_sync(disk.reached.wait, REACHED_S_MAX)
            assert await produce(cluster.bootstrap(), "orders", [b"meanwhile"], acks="all") == [1_000]
            disk.release()
            answer = await wire.answer(ApiKey.LIST_OFFSETS, 7)
            assert (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].offset) == (
                0,
                0,
            )
            # The same again, but the leadership ends while the disk is slow.
            disk.hold("pread", f"{0:020d}.")
            await wire.begin(ApiKey.LIST_OFFSETS, 7, list_offsets_fields(0))
            assert await trio.to_thread.run_sync(disk.reached.wait, REACHED_S_MAX)
            cluster.controller.delete_topic("orders")
            await cluster.controller.wait_for(
                lambda: cluster.brokers[1].broker.table.get(topic_id, 0) is None, "the replica goes"
            )
            disk.release()
            answer = await wire.answer(ApiKey.LIST_OFFSETS, 7)
            assert answer.topics[0].partitions[0].error_code == 6
        assert cluster.brokers[1].broker.directory.failure is None

    on_brokers(tmp_path, 1)(test, disk)
