"""Floods of member ids, asked of a coordinator process, beside another group that must not notice."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import psutil
import pytest
import trio

from coordinator.core.groups.options import GroupOptions
from localcluster.cluster import FIRST_COORDINATOR_ID, LocalCluster
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.commits import commit_fields
from tests.kit.dataplane.raw import Raw, connected

JOIN, JOIN_VERSION = ApiKey.JOIN_GROUP, 4
PENDING_MAX, AT_ONCE = GroupOptions().pending_max, 500
GROWTH_BYTES_MAX = 64 << 20
SILENCE_S_MAX = 5.0
OTHER = "billing"


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(coordinators=1) as cluster:
        cluster.form()
        yield cluster


async def join(wire: Raw, group_id: str) -> None:
    await wire.begin(
        JOIN,
        JOIN_VERSION,
        {
            "group_id": group_id,
            "session_timeout_ms": 1_800_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    )


async def flood(port: int, group_id: str, count: int) -> list[ErrorCode]:
    """Return the errors of so many joins of one group, `AT_ONCE` under way."""
    told = []
    async with connected(port) as wire:
        for _ in range(count // AT_ONCE):
            for _ in range(AT_ONCE):
                await join(wire, group_id)
            told += [(await wire.answer(JOIN, JOIN_VERSION)).error_code for _ in range(AT_ONCE)]
    return [ErrorCode(error) for error in told]


async def commit(wire: Raw, group_id: str) -> ErrorCode:
    answer = await wire.ask(ApiKey.OFFSET_COMMIT, 7, commit_fields(group_id, "orders", {0: 1}))
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def wait_until_served(port: int, *group_ids: str) -> None:
    """Wait until the groups' shards are open."""
    async with connected(port) as wire:
        for group_id in group_ids:
            while await commit(wire, group_id) is not ErrorCode.NONE:  # noqa: ASYNC110 - no event tells it
                await trio.sleep(0.1)


async def longest_commit(port: int, done: trio.Event) -> float:
    """Commit for another group until done; return how long one took at most, in seconds."""
    longest = 0.0
    async with connected(port) as wire:
        while not done.is_set():
            asked = monotonic()
            assert await commit(wire, OTHER) is ErrorCode.NONE
            longest = max(longest, monotonic() - asked)
            await trio.sleep(0.01)
    return longest


@pytest.mark.timeout(300)
@pytest.mark.parametrize("groups", [1, pytest.param(10, marks=pytest.mark.proof)])
def test_a_flood_of_member_ids_ends_at_bounds_and_others_go_on(cluster: LocalCluster, groups: int) -> None:
    """Ten groups ask for a hundred thousand: each has a bound of its own, and none has room afterwards."""
    cluster.create_topic("orders", partitions=1, replication_factor=3)
    coordinator = cluster.coordinators[FIRST_COORDINATOR_ID]
    process = psutil.Process(coordinator.process.pid)
    told: list[ErrorCode] = []
    silences: list[float] = []

    async def attack() -> None:
        done = trio.Event()

        async def bystander() -> None:
            silences.append(await longest_commit(coordinator.port, done))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bystander)
            for group_id in flooded:
                told.extend(await flood(coordinator.port, group_id, PENDING_MAX))
            told.extend(await flood(coordinator.port, flooded[0], AT_ONCE))
            done.set()

    flooded = [f"flood-{number}" for number in range(groups)]
    trio.run(wait_until_served, coordinator.port, OTHER, *flooded)
    before, began = process.memory_info().rss, monotonic()
    trio.run(attack)
    growth = process.memory_info().rss - before
    print(
        f"{len(told)} member ids in {monotonic() - began:.1f} s; RSS grew by {growth / 1e6:.1f} MB; "
        f"another group's commit waited {silences[0] * 1000:.0f} ms at most"
    )
    cluster.require_alive()
    assert (
        told
        == [ErrorCode.MEMBER_ID_REQUIRED] * groups * PENDING_MAX
        + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * AT_ONCE
    )
    assert growth < GROWTH_BYTES_MAX
    assert silences[0] < SILENCE_S_MAX
