"""PATCH of a topic's replication factor: up and down, as an operation that carries out a plan."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.kit.admin_api.plans import ended, formed, operation, partitions, pause
from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TOPIC = "/clusters/prod/topics/orders"


async def _patch(
    rest: Rest, query: str = "", headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    return await rest.client.patch(f"{TOPIC}{query}", json=body, headers=headers or {})


async def _factor(rest: Rest) -> tuple[int, int]:
    view = (await rest.client.get(TOPIC)).json()
    return view["replication_factor"], view["min_insync_replicas"]


async def test_more_replicas_come_by_an_operation_and_go_by_another(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        before = {s.partition: s.replicas for s in partitions(rest)}
        factor = len(before[0])
        dry = await _patch(rest, "?dry_run=true", replication_factor=factor + 1)
        assert dry.status_code == 200, dry.text
        assert dry.json()["goal"]["replication_factor"] == factor + 1
        assert dry.json()["totals"]["copies"] == len(before)
        assert (await rest.client.get("/operations")).json()["items"] == []
        response = await _patch(
            rest, replication_factor=factor + 1, max_concurrent_moves=2, reason="orders are money"
        )
        assert response.status_code == 202, response.text
        begun = response.json()
        assert (begun["kind"], begun["progress"]["moves_total"]) == ("replication_factor_change", len(before))
        assert begun["spec"]["replication_factor"] == factor + 1
        await pause(rest, brokers, 1_000)
        assert sum(s.is_reassigning for s in partitions(rest)) == 2
        done = await ended(rest, brokers, begun["id"])
        assert (done["state"], done["error"]) == ("succeeded", None)
        after = {s.partition: s.replicas for s in partitions(rest)}
        for number, replicas in after.items():
            assert len(replicas) == factor + 1
            assert set(before[number]) < set(replicas)
        assert await _factor(rest) == (factor + 1, (factor + 1) // 2 + 1)
        moves = (await rest.client.get(f"/operations/{begun['id']}/moves")).json()["items"]
        assert {move["fate"] for move in moves} == {"moved"}
        (row,) = await rest.recorded(cause="change_replication_factor", operation=begun["id"])
        assert (row["reason"], row["outcome"]["outcome"]) == ("orders are money", "succeeded")

        down = await _patch(rest, replication_factor=1)
        done = await ended(rest, brokers, down.json()["id"])
        assert done["state"] == "succeeded"
        assert [len(s.replicas) for s in partitions(rest)] == [1] * len(before)
        assert {s.leader for s in partitions(rest)} == {s.replicas[0] for s in partitions(rest)}
        assert await _factor(rest) == (1, 1)


async def test_what_cant_be_had_is_refused_with_the_reason(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        factor, _ = await _factor(rest)
        same = await _patch(rest, replication_factor=factor)
        assert problem(same) == (422, "no_improvement")
        too_many = await _patch(rest, replication_factor=9)
        assert problem(too_many) == (422, "plan_infeasible")
        assert set(pointers(too_many)) == {"/replication_factor"}
        assert (await rest.client.get("/operations")).json()["items"] == []
        assert all(not s.is_reassigning for s in partitions(rest))


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/partitions"),
        ({"partitions": 20, "replication_factor": 3}, "/replication_factor"),
        ({"partitions": 20, "throttle_bytes_per_s": 1_000_000}, "/throttle_bytes_per_s"),
        ({"partitions": 20, "not_before": "2099-01-01T00:00:00Z"}, "/not_before"),
        ({"replication_factor": 3, "assignments": [[1, 2, 3]]}, "/assignments"),
        ({"replication_factor": 0}, "/replication_factor"),
    ],
)
async def test_one_thing_is_changed_at_a_time(
    zookeeper: MemoryZooKeeper, body: dict[str, Any], pointer: str
) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        refused = await _patch(rest, **body)
        assert problem(refused) == (422, "invalid_request")
        assert pointers(refused) == [pointer]


async def test_the_same_key_gets_the_same_operation_and_a_topic_seen_long_ago_is_not_changed(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest)
        factor, _ = await _factor(rest)
        etag = (await rest.client.get(TOPIC)).headers["etag"]
        key = {"Idempotency-Key": "raise-orders", "If-Match": etag}
        first = await _patch(rest, headers=key, replication_factor=factor + 1)
        assert first.status_code == 202
        second = await _patch(rest, headers=key, replication_factor=factor + 1)
        assert (second.status_code, second.json()["id"]) == (202, first.json()["id"])
        await ended(rest, brokers, first.json()["id"])
        stale = await _patch(rest, headers={"If-Match": etag}, replication_factor=factor)
        assert problem(stale) == (412, "precondition_failed")
        assert (await operation(rest, first.json()["id"]))["state"] == "succeeded"
