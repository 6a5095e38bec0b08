"""Members of a `consumer` group that have partitions to give up when their coordinator dies.

The next coordinator knows what they were asked for, not whether they did it. A client that found another
coordinator says again what it consumes (Java's), or is answered COORDINATOR_LOAD_IN_PROGRESS once and says it
then (librdkafka). One that did not would go on only after its rebalance timeout, five minutes.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest
import trio

from coordinator.core.groups.consumer.state import ConsumerGroup, MemberState
from coordinator.core.groups.machine import GroupMachine
from springtide.node.sharding import shard_of
from tests.checker.group_diary import Assigned, Committed, Revoked
from tests.checker.group_judge import judge
from tests.faults.groups.lives import JAVA, Member
from tests.faults.groups.member import CONSUMER, LIBRDKAFKA, SESSION_MS
from tests.faults.groups.writer import Writer
from tests.interop.clients import NO_JARS, kafka_home
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, cluster_in_process

GROUP, TOPIC, PARTITIONS = "billing", "orders", 4
HEARTBEAT_MS = 500
CONFIGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.assignment.interval.ms": "0",
}
AT_ONCE_SECONDS = 10.0
"""A heartbeat, the client's pause after the error, and another one; on a machine with other work."""
LOG_LINES_MAX = 60
"""Of a client: of lost connections, most of them."""


def machine_of(cluster: ClusterInProcess) -> GroupMachine | None:
    """Return the machine that serves the group; None: no coordinator does."""
    shards = dict(cluster.shard_owners())
    shard = shard_of(GROUP, len(shards))
    owner = cluster.coordinators.get(shards[shard])
    machine = None if owner is None else owner.process.shards.served().get(shard)
    assert machine is None or isinstance(machine, GroupMachine)
    return machine


def group_of(cluster: ClusterInProcess) -> ConsumerGroup | None:
    machine = machine_of(cluster)
    return None if machine is None else machine.registry.consumers.store.latest(GROUP)


def has_heard(cluster: ClusterInProcess) -> bool:
    """Return whether a member of the group has partitions to give up, and its client knows."""
    group, machine = group_of(cluster), machine_of(cluster)
    if group is None or machine is None:
        return False
    live = machine.registry.consumers.live_group(GROUP).members
    return any(
        member.current.state == MemberState.UNREVOKED_PARTITIONS
        and member_id in live
        and (live[member_id].told or {}) == member.current.assigned
        for member_id, member in group.members.items()
    )


@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA])
def test_a_member_shows_the_next_coordinator_what_it_consumes_and_goes_on_at_once(
    client: str, tmp_path: Path
) -> None:
    home = kafka_home()
    if client == JAVA and home is None:
        pytest.skip(NO_JARS)
    hold = tmp_path / "hold"
    hold.touch()

    async def run() -> None:
        async with cluster_in_process(tmp_path) as cluster:
            await cluster.form(1, 2)
            cluster.controller.create_topic(TOPIC, ((1, 2), (2, 1)) * (PARTITIONS // 2))
            await cluster.form_coordinators(1001, 1002, configs=CONFIGS)
            bootstrap, wait_for = cluster.bootstrap(), cluster.controller.wait_for
            writer = Writer(bootstrap, TOPIC, PARTITIONS, rate=100)

            def member(number: int, client: str) -> Member:
                return Member(
                    number,
                    directory=tmp_path,
                    bootstrap=bootstrap,
                    topic=TOPIC,
                    group=GROUP,
                    kinds=[(client, CONSUMER)],
                    kafka_home=home,
                    hold=hold,
                )

            gives, takes = member(1, client), member(2, LIBRDKAFKA)
            try:
                writer.start()
                gives.start()
                await wait_for(lambda: len(owned(gives)) == PARTITIONS, "one has all")
                takes.start()
                await wait_for(lambda: has_heard(cluster), "it is asked for half, and has heard it")

                shards = dict(cluster.shard_owners())
                await cluster.coordinators.pop(shards[shard_of(GROUP, len(shards))]).kill()
                await wait_for(lambda: has_heard(cluster), "the next coordinator has been told what it has")
                assert len(owned(gives)) == PARTITIONS, "it gives nothing up yet"
                hold.unlink()
                released_at = monotonic()
                await wait_for(lambda: len(owned(takes)) == PARTITIONS // 2, "the other one has half")
                assert monotonic() - released_at < AT_ONCE_SECONDS
                assert not owned(gives) & owned(takes)

                assert await trio.to_thread.run_sync(writer.stop) == 0
                ends = {partition: max(offsets) + 1 for partition, offsets in writer.acknowledged.items()}
                await wait_for(lambda: committed(gives) | committed(takes) == ends, "all is committed")
                assert [len(assigned(each)) for each in (gives, takes)] == [1, 1], "none had to join again"
            finally:
                await trio.to_thread.run_sync(writer.stop)
                for each in (gives, takes):
                    await trio.to_thread.run_sync(each.stop)
            found = judge([*gives.lives(()), *takes.lives(())], writer.acknowledged, session_ms=SESSION_MS)
            assert found.failures == []
            for each in (gives, takes):
                assert len(each.process.log_path.read_text().splitlines()) < LOG_LINES_MAX

    trio.run(run)


def assigned(member: Member) -> list[tuple[int, ...]]:
    """Return the partitions of each time that a member was assigned some."""
    entries = (entry for entry in member.entries() if isinstance(entry, Assigned))
    return [entry.partitions for entry in entries if entry.partitions]


def owned(member: Member) -> set[int]:
    """Return what a member consumes."""
    partitions: set[int] = set()
    for entry in member.entries():
        match entry:
            case Assigned(partitions=given):
                partitions |= set(given)
            case Revoked(partitions=gone):
                partitions -= set(gone)
            case _:
                pass
    return partitions


def committed(member: Member) -> dict[int, int]:
    """Return the last offset that a member has committed of each partition that it consumes."""
    last = {
        partition: offset
        for entry in member.entries()
        if isinstance(entry, Committed)
        for partition, offset in entry.offsets.items()
    }
    return {partition: last.get(partition, -1) for partition in owned(member)}
