"""Quiet idempotent producers whose records are deleted and whose partition moves (I23, no gap, no repeat)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import trio
from confluent_kafka.admin import AdminClient

from controller.core.events import AlterReassignments, ReassignmentsAltered, ReassignmentTarget
from tests.kit.dataplane.clients_in_threads import TIMEOUT_S
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

BATCHES = 7


def move(cluster: ClusterInProcess, topic_id: str, replicas: tuple[int, ...]) -> None:
    target = ReassignmentTarget(topic_id=topic_id, partition=0, replicas=replicas)
    reply = cluster.controller.submit(AlterReassignments(wall_ms=0, actor="test", targets=(target,)))
    assert isinstance(reply, ReassignmentsAltered) and reply.results[0].refusal is None


def delete_all(bootstrap: str) -> int:
    place = confluent_kafka.TopicPartition("orders", 0, -1)
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        (pending,) = admin.delete_records([place]).values()
        return int(pending.result(TIMEOUT_S).low_watermark)


def write_with_librdkafka(bootstrap: str, rest: Callable[[], None]) -> list[int]:
    """Return the offsets of what was written before `rest` and after it."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    def write() -> None:
        for _ in range(BATCHES):
            producer.produce("orders", b"x", partition=0, on_delivery=delivered)
            assert producer.flush(TIMEOUT_S) == 0

    write()
    rest()
    write()
    return offsets


def write_with_aiokafka(bootstrap: str, rest: Callable[[], None]) -> list[int]:
    async def run() -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, metadata_max_age_ms=1_000
        )
        await producer.start()
        try:
            before = [(await producer.send_and_wait("orders", b"x", partition=0)) for _ in range(BATCHES)]
            await asyncio.to_thread(rest)
            after = [(await producer.send_and_wait("orders", b"x", partition=0)) for _ in range(BATCHES)]
            return [told.offset for told in (*before, *after)]
        finally:
            await producer.stop()

    return asyncio.run(run())


def test_quiet_producers_go_on_after_their_partition_has_moved(tmp_path: Path) -> None:
    """Both are at rest while all records are deleted and two brokers that had no replica take the place of
    the two that had; one of these dies and comes back. RP#22670: there a quiet producer was out of order."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3, 4)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),))
            bootstrap = cluster.bootstrap()
            resting = 0
            is_over = trio.Event()

            async def move_when_both_rest() -> None:
                await cluster.controller.wait_for(lambda: resting == 2, "two producers at rest")
                await trio.to_thread.run_sync(delete_all, bootstrap)
                move(cluster, topic_id, (3, 4))
                await cluster.controller.wait_for(
                    lambda: not cluster.controller.state(topic_id).is_reassigning, "the move"
                )
                await cluster.brokers.pop(3).kill()
                await cluster.start(3)
                await cluster.wait_isr(topic_id, 3, 4)
                is_over.set()

            offsets: dict[str, list[int]] = {}

            async def write(client: Callable[..., list[int]]) -> None:
                token = trio.lowlevel.current_trio_token()

                def rest_from_any_thread() -> None:
                    nonlocal resting
                    resting += 1
                    trio.from_thread.run(is_over.wait, trio_token=token)

                offsets[client.__name__] = await trio.to_thread.run_sync(
                    client, bootstrap, rest_from_any_thread
                )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(write, write_with_librdkafka)
                nursery.start_soon(write, write_with_aiokafka)
                nursery.start_soon(move_when_both_rest)
            found = sorted(offset for told in offsets.values() for offset in told)
            assert found == list(range(4 * BATCHES)), "each once"

    trio.run(run)
