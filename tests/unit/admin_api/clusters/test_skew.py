"""The skew in a cluster's answer: of replicas, leaders and bytes, and what is not known of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.plans import formed, pause, report_sizes
from tests.kit.admin_api.rest import Rest, controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


async def skew(rest: Rest) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = (await rest.client.get("/clusters/prod")).json()["skew"]
    return found


async def test_the_highest_over_the_mean_is_told_for_each_weight(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        await rest.create_topic("small", assignments=[[1], [4]], partitions=2, replication_factor=1)
        found = await skew(rest)
        assert found["replicas"] == {
            "unit": "replicas",
            "mean": 5.0,
            "highest": 7,
            "broker_id": 1,
            "max_over_mean": 1.4,
            "unknown_partitions": 0,
        }
        assert (found["leaders"]["highest"], found["leaders"]["max_over_mean"]) == (3, 1.5)
        assert found["bytes"] == {
            "unit": "bytes",
            "mean": None,
            "highest": None,
            "broker_id": None,
            "max_over_mean": None,
            "unknown_partitions": 8,
        }
        await report_sizes(rest, brokers, size_bytes=1_000, but="small-1")
        found = await skew(rest)
        assert (found["bytes"]["highest"], found["bytes"]["mean"]) == (7_000, 4_750.0)
        assert (found["bytes"]["broker_id"], found["bytes"]["unknown_partitions"]) == (1, 1)
        assert (await rest.client.get("/clusters")).json()["items"][0]["skew"] is None


async def test_brokers_that_are_down_or_being_emptied_do_not_count(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        assert (await rest.client.post("/clusters/prod/brokers/4:drain", json={})).status_code == 202
        await pause(rest, brokers, 300)
        assert (await skew(rest))["replicas"]["max_over_mean"] == 1.0


async def test_an_empty_cluster_has_no_skew(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        created = await rest.post("/clusters", {"name": "prod"})
        assert {one["max_over_mean"] for one in created.json()["skew"].values()} == {None}
        assert created.json()["skew"]["bytes"]["unknown_partitions"] == 0
