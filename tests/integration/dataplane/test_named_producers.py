"""A producer that names its own id goes on where its predecessor came to, also at another leader (6.9, named
producer ids)."""

from __future__ import annotations

from pathlib import Path

import trio

from springtide.contract.partition_state import NO_LEADER
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.raw import Raw, connected

NAMED = 2**62 + 77
EPOCH = 32_767
BATCHES = [[b"%d" % number for number in range(first, first + 3)] for first in range(0, 24, 3)]
VALUES = [value for batch in BATCHES for value in batch]


async def send(raw: Raw, index: int, *, producer_epoch: int = EPOCH) -> tuple[ErrorCode, int]:
    return await raw.produce(
        "orders",
        BATCHES[index],
        producer_id=NAMED,
        producer_epoch=producer_epoch,
        base_sequence=3 * index,
    )


async def port_of_leader(cluster: ClusterInProcess, topic_id: str) -> int:
    controller = cluster.controller
    await controller.wait_for(lambda: controller.state(topic_id).leader != NO_LEADER, "a leader")
    leader = controller.state(topic_id).leader

    def leads() -> bool:
        hosted = cluster.brokers[leader].broker.table.get(topic_id, 0)
        return hosted is not None and hosted.replica.maximal_isr != ()

    await controller.wait_for(leads, "it leads")
    return cluster.brokers[leader].port


def test_what_one_attempt_wrote_the_next_one_finds_and_does_not_write_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2, 3)
            topic_id = cluster.controller.create_topic("orders", ((1, 2, 3),), {"min.insync.replicas": "2"})
            async with connected(await port_of_leader(cluster, topic_id)) as first:
                assert await first.producers("orders") == (ErrorCode.NONE, [])
                for index in range(7):
                    assert await send(first, index) == (ErrorCode.NONE, 3 * index)
                assert await first.producers("orders") == (ErrorCode.NONE, [(NAMED, EPOCH, 20)])
            await cluster.brokers.pop(1).kill()
            await cluster.controller.wait_for(
                lambda: cluster.controller.state(topic_id).leader not in (1, NO_LEADER), "a new leader"
            )
            async with connected(await port_of_leader(cluster, topic_id)) as second:
                assert await second.producers("orders") == (ErrorCode.NONE, [(NAMED, EPOCH, 20)])
                assert await send(second, 0) == (ErrorCode.NONE, -1)  # stored, older than five batches
                assert await send(second, 6) == (ErrorCode.NONE, 18)
                assert await send(second, 7) == (ErrorCode.NONE, 21)
                old, _ = await send(second, 7, producer_epoch=EPOCH - 1)
                assert old is ErrorCode.INVALID_PRODUCER_EPOCH
                assert (await second.fetch("orders", 0))[2] == VALUES

    trio.run(run)


def test_a_follower_does_not_say_what_is_stored(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),))
            async with connected(await port_of_leader(cluster, topic_id)) as leader:
                assert await send(leader, 0) == (ErrorCode.NONE, 0)
            async with connected(cluster.brokers[2].port) as follower:
                assert await follower.producers("orders") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
                assert await follower.producers("nothing") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])

    trio.run(run)
