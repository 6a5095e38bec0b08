"""What a truncation dropped is listed and read over the wire, byte for byte, by who asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from dataplane.core.effects import CopyDivergent
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.hosted import HostedPartition
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.gated_disk import GatedDisk
from tests.kit.dataplane.raw import Raw, connected

DEBUGGING = -2
VALUES = [b"value %d" % number for number in range(6)]


def aside(hosted: HostedPartition, *, first_offset: int) -> CopyDivergent:
    return CopyDivergent(
        hold_id=1,
        first_offset=first_offset,
        next_offset=hosted.log.log_end_offset,
        leader_epoch=LeaderEpoch(7),
        high_watermark=4,
        cut_offset=first_offset,
    )


async def set_aside(cluster: ClusterInProcess, topic_id: str, *, first_offset: int) -> None:
    """As the broker does before it cuts its log there."""
    broker = cluster.brokers[1].broker
    hosted = broker.table.get(topic_id, 0)
    assert hosted is not None
    done = trio.Event()
    outcome: list[str | None] = []

    def on_done(error: str | None) -> None:
        outcome.append(error)
        done.set()

    broker.directory.start_copying(hosted, aside(hosted, first_offset=first_offset), on_done)
    await done.wait()
    assert outcome == [None]


async def log_dirs(raw: Raw, topics: Any = None) -> dict[str, list[tuple[str, int, bool]]]:
    """directory -> (name, partition, whether it has bytes)."""
    answer = await raw.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": topics})
    assert answer.error_code == ErrorCode.NONE
    assert all(result.error_code == ErrorCode.NONE and result.usable_bytes > 0 for result in answer.results)
    return {
        result.log_dir: [
            (topic.name, partition.partition_index, partition.partition_size > 0)
            for topic in result.topics
            for partition in topic.partitions
        ]
        for result in answer.results
    }


def test_a_dropped_suffix_is_listed_and_read_by_its_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1)
            topic_id = cluster.controller.create_topic("orders", ((1,),))
            table = cluster.brokers[1].broker.table
            await cluster.controller.wait_for(lambda: table.get(topic_id, 0) is not None, "it is hosted")
            root = str(cluster.data_dir(1))
            name = f"orders-0.{topic_id}.{3:020d}-{6:020d}.0"
            async with connected(cluster.brokers[1].port) as raw:
                for value in VALUES:
                    assert (await raw.produce("orders", [value]))[0] is ErrorCode.NONE
                assert await log_dirs(raw) == {root: [("orders", 0, True)]}
                await set_aside(cluster, topic_id, first_offset=3)
                assert await log_dirs(raw) == {
                    root: [("orders", 0, True)],
                    f"{root}/divergent": [(name, 0, True)],
                }
                other = [{"topic": "orders", "partitions": (1,)}]
                assert await log_dirs(raw, other) == {root: [], f"{root}/divergent": []}

                # It is opened while the fetch waits; the high watermark is that of the time of the cut.
                kept = await raw.fetch(name, 3, replica_id=DEBUGGING, max_wait_ms=10_000)
                assert kept == (ErrorCode.NONE, 4, VALUES[3:])
                assert await raw.fetch(name, 5, replica_id=DEBUGGING) == (ErrorCode.NONE, 4, VALUES[5:])
                below = await raw.fetch(name, 2, replica_id=DEBUGGING)
                assert below[0] is ErrorCode.OFFSET_OUT_OF_RANGE

                # A consumer has not come for it, nor can a topic's be had by another name.
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert (await raw.fetch(name, 3))[0] is unknown
                absent = name.removesuffix("0") + "1"
                gone = await raw.fetch(absent, 3, replica_id=DEBUGGING, max_wait_ms=10_000)
                assert gone[0] is unknown

    trio.run(run)


def test_a_copy_that_is_finished_while_the_broker_closes_its_logs_cuts_none(tmp_path: Path) -> None:
    """The cut that had waited for it met an index that was closed, and the process failed."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            disk = cluster.disks[1] = GatedDisk()
            await cluster.form(1)
            topic_id = cluster.controller.create_topic("orders", ((1,),))
            running = cluster.brokers.pop(1)
            broker = running.broker
            await cluster.controller.wait_for(
                lambda: broker.table.get(topic_id, 0) is not None, "it is hosted"
            )
            async with connected(running.port) as raw:
                for value in VALUES:
                    assert (await raw.produce("orders", [value]))[0] is ErrorCode.NONE
            hosted = broker.table.get(topic_id, 0)
            assert hosted is not None
            changed: list[object] = []
            broker.effects.run_alone = lambda *told: changed.append(told)  # type: ignore[method-assign]
            disk.hold("fsync", "divergent")
            EffectRunner.run(broker.effects, hosted, (aside(hosted, first_offset=3),))
            assert await trio.to_thread.run_sync(lambda: disk.reached.wait(10))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(running.stop)
                marker = cluster.data_dir(1) / "clean-shutdown"
                await cluster.controller.wait_for(marker.exists, "all is closed")
                changed.clear()
                disk.release()
            assert changed == []

    trio.run(run)
