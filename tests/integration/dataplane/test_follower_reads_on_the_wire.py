"""Consumers at a follower, over real sockets: what they get, when they are woken, what it leaves behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from dataplane.core.leader import Leader
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process
from tests.kit.dataplane.raw import Raw, connected

FIRST = [b"a", b"b", b"c"]
DEBUGGING = -2

Test = Callable[[ClusterInProcess, Raw, Raw, str], Awaitable[None]]


def with_a_follower(tmp_path: Path, test: Test) -> None:
    """Broker 1 leads "orders"-0; broker 2 follows, and knows the first three records to be committed."""

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2)
            topic_id = cluster.controller.create_topic("orders", ((1, 2),), {"min.insync.replicas": "2"})
            await cluster.wait_isr(topic_id, 1, 2)
            async with (
                connected(cluster.brokers[1].port) as leader,
                connected(cluster.brokers[2].port) as follower,
            ):
                await retried(leader)
                await cluster.controller.wait_for(lambda: high_watermark(cluster, 2, topic_id) == 3, "told")
                await test(cluster, leader, follower, topic_id)

    trio.run(run)


async def retried(leader: Raw) -> None:
    """The first produce, which may come before the leader has heard of its leadership."""
    with trio.fail_after(60):
        while (await leader.produce("orders", FIRST))[0] is not ErrorCode.NONE:  # noqa: ASYNC110
            await trio.sleep(0.05)


def high_watermark(cluster: ClusterInProcess, broker_id: int, topic_id: str) -> int:
    hosted = cluster.brokers[broker_id].broker.table.get(topic_id, 0)
    return -1 if hosted is None else hosted.replica.high_watermark


def test_who_states_the_leader_epoch_reads_from_a_follower_what_is_committed(tmp_path: Path) -> None:
    async def test(cluster: ClusterInProcess, leader: Raw, follower: Raw, topic_id: str) -> None:
        epoch = cluster.controller.state(topic_id).leader_epoch
        assert await follower.fetch("orders", 0, leader_epoch=epoch) == (ErrorCode.NONE, 3, FIRST)
        assert await follower.fetch("orders", 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, [])
        assert (await follower.fetch("orders", 4, leader_epoch=epoch))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
        newer = await follower.fetch("orders", 0, leader_epoch=epoch + 1)
        assert newer[0] is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await follower.fetch("orders", 0, replica_id=DEBUGGING) == (ErrorCode.NONE, 3, FIRST)
        assert await leader.fetch("orders", 0, replica_id=DEBUGGING) == (ErrorCode.NONE, 3, FIRST)

    with_a_follower(tmp_path, test)


def test_who_waits_at_a_follower_is_answered_when_it_hears_of_the_commit(tmp_path: Path) -> None:
    async def test(cluster: ClusterInProcess, leader: Raw, follower: Raw, topic_id: str) -> None:
        epoch = cluster.controller.state(topic_id).leader_epoch
        answers = []

        async def wait() -> None:
            answers.append(await follower.fetch("orders", 3, leader_epoch=epoch, max_wait_ms=60_000))

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.sleep(0.2)
                assert answers == []
                assert await leader.produce("orders", [b"d"]) == (ErrorCode.NONE, 3)
        assert answers == [(ErrorCode.NONE, 4, [b"d"])]

    with_a_follower(tmp_path, test)


def test_a_consumer_is_no_evidence_of_anything_to_the_leader(tmp_path: Path) -> None:
    """Reads of a follower, and of the leader under the debugging id, stand for no replica."""

    async def test(cluster: ClusterInProcess, leader: Raw, follower: Raw, topic_id: str) -> None:
        hosted = cluster.brokers[1].broker.table.get(topic_id, 0)
        assert hosted is not None
        role = hosted.replica.role
        assert isinstance(role, Leader)
        followers = role.in_sync.waited_for
        before = [(each.log_end_offset, each.contact) for each in followers]
        for fetch_offset in (0, 3, 99):
            await leader.fetch("orders", fetch_offset, replica_id=DEBUGGING)
            await follower.fetch("orders", fetch_offset, replica_id=DEBUGGING)
        assert [(each.log_end_offset, each.contact) for each in followers] == before
        assert hosted.replica.high_watermark == 3

    with_a_follower(tmp_path, test)
