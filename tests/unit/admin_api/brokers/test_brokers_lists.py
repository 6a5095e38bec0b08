"""Lists of brokers: disk and rates; orders and search."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.contract.session import DiskSpace
from tests.kit.admin_api.plans import pause, report_sizes
from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

BROKERS = "/clusters/prod/brokers"
GIB = 2**30
#: Free and total: 2 is the fullest, and 3 has the least that is free.
DISKS = {1: (600 * GIB, 1_000 * GIB), 2: (50 * GIB, 1_000 * GIB), 3: (40 * GIB, 100 * GIB)}


async def ids(rest: Rest, **query: Any) -> list[int]:
    answer = await rest.client.get(BROKERS, params=query)
    assert answer.status_code == 200, answer.text
    return [broker["broker_id"] for broker in answer.json()["items"]]


async def test_brokers_are_ordered_by_disk_and_by_what_passes(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        assert (await rest.client.get(f"{BROKERS}/1")).json()["bytes_in_per_s"] is None
        await rest.create_topic("orders", partitions=1, assignments=[[2, 1, 3]], replication_factor=None)
        for second in range(61):
            await report_sizes(rest, brokers, size_bytes=500, bytes_in=[1_000 * second])
            await pause(rest, brokers, 1_000)
        for broker in brokers:
            free, total = DISKS[broker.broker_id]
            broker.disk = DiskSpace(free_bytes=free, total_bytes=total)
            await broker.heartbeat()
        shown = (await rest.client.get(f"{BROKERS}/2")).json()
        assert shown["bytes_in_per_s"] == pytest.approx(1_000, rel=0.1)
        assert shown["bytes_out_per_s"] == 0
        assert (await rest.client.get(f"{BROKERS}/1")).json()["bytes_in_per_s"] == 0
        assert await ids(rest, sort="-disk_used") == [2, 3, 1]
        assert await ids(rest, sort="disk_free") == [3, 2, 1]
        assert await ids(rest, sort="-bytes_in") == [2, 3, 1]
        assert await ids(rest, sort="bytes_out") == [1, 2, 3]
        brokers[1].disk = None
        await brokers[1].heartbeat()
        assert await ids(rest, sort="-disk_used") == [3, 1, 2], "2 does not tell of its disk any more"


async def test_brokers_are_found_by_id_endpoint_or_rack(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.client.patch(f"{BROKERS}/3", json={"rack": "Room2"})
        assert await ids(rest, search="127.0.0.1") == [1, 2, 3]
        assert await ids(rest, search=":9002") == [2]
        assert await ids(rest, search="room") == [3]
        assert await ids(rest, search="nowhere") == []
        refused = await rest.client.get(BROKERS, params={"sort": "size"})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["sort"])
