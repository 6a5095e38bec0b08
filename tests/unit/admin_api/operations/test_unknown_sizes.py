"""A controller that has just taken over does not know how large logs are: its operations wait for that before
they plan, for a while."""

from __future__ import annotations

from typing import Any

import pytest

from admin_api.settings import ApiSettings
from tests.kit.admin_api.broker_moves import BROKERS, accepted, become_active, join, spec
from tests.kit.admin_api.plans import ended, formed, made, operation, pause, report_sizes
from tests.kit.admin_api.rest import Rest, controller, silence
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

WAIT_MS = ApiSettings().sizes_wait_ms
REBALANCE = {"kind": "rebalance", "mode": "new_only", "new_broker_ids": [4]}


async def take_over(rest: Rest, brokers: list[Broker]) -> None:
    """Another term, in which brokers are there and have reported nothing."""
    epoch = rest.engine.controller_epoch
    rest.meta.expire_at_server()
    for _ in range(2_000):
        await rest.clock.sleep_ms(10)
        if rest.engine.role == "active" and rest.engine.controller_epoch > epoch:
            break
    for broker in brokers:
        await broker.heartbeat()
        await broker.apply()
        await broker.heartbeat()


async def joined(rest: Rest, brokers: list[Broker], **rebalance: Any) -> tuple[str, Broker]:
    """Broker 4 is being added; it became active after another controller took over."""
    operation_id = await accepted(rest, BROKERS, **spec(4, rebalance=rebalance or {"mode": "new_only"}))
    await take_over(rest, brokers)
    newcomer = await join(rest, 4, brokers)
    await become_active(rest, newcomer, operation_id)
    return operation_id, newcomer


async def plan_of(rest: Rest, operation_id: str) -> dict[str, Any]:
    plan_id = (await operation(rest, operation_id))["plan_id"]
    body: dict[str, Any] = (await rest.client.get(f"/clusters/prod/plans/{plan_id}")).json()
    return body


async def test_it_plans_when_every_leader_has_told_its_sizes(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        operation_id, newcomer = await joined(rest, brokers)
        await pause(rest, [*brokers, newcomer], 1_000)
        waiting = await operation(rest, operation_id)
        assert (waiting["state"], waiting["plan_id"]) == ("running", None)
        assert {step["name"]: step["state"] for step in waiting["steps"]}["plan"] == "running"
        (blocked,) = waiting["blocked"]
        assert (blocked["code"], blocked["topic"], blocked["partition"]) == ("sizes_unknown", "orders", 0)
        # The first partitions are the largest, so that whoever does not know sizes takes the dearest.
        await report_sizes(rest, brokers, size_bytes=60_000, less_bytes=10_000, but="orders-2")
        await pause(rest, [*brokers, newcomer], 1_000)
        (blocked,) = (await operation(rest, operation_id))["blocked"]
        assert (blocked["code"], blocked["partition"]) == ("sizes_unknown", 2)
        await report_sizes(rest, brokers, size_bytes=60_000, less_bytes=10_000)
        await pause(rest, [*brokers, newcomer], 1_000)
        totals = (await plan_of(rest, operation_id))["totals"]
        assert totals["unknown_sizes"] == 0
        assert totals["bytes"] == totals["bytes_least"] == 10_000 + 20_000 + 30_000 + 40_000
        done = await ended(rest, [*brokers, newcomer], operation_id)
        assert (done["state"], done["error"]) == ("succeeded", None)


async def test_it_does_not_wait_for_ever_and_the_plan_says_what_it_does_not_know(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        operation_id, newcomer = await joined(rest, brokers)
        await pause(rest, [*brokers, newcomer], WAIT_MS - 4_000)
        assert (await operation(rest, operation_id))["plan_id"] is None
        # A plan that somebody asks for is made at once, and tells how much of it is a guess.
        asked = (await made(rest, REBALANCE))["totals"]
        assert asked["unknown_sizes"] == asked["moves"] > 0
        await pause(rest, [*brokers, newcomer], 5_000)
        totals = (await plan_of(rest, operation_id))["totals"]
        assert totals["unknown_sizes"] == totals["moves"] == asked["moves"]


async def test_nobody_waits_for_what_has_no_leader_is_new_or_is_being_deleted(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        await rest.create_topic("lonely", partitions=1, replication_factor=1, assignments=[[1]])
        await rest.create_topic("going", partitions=1, replication_factor=1, assignments=[[2]])
        await silence(rest, brokers, 2, 3)
        assert (await rest.client.get(f"{BROKERS}/1")).json()["state"] == "fenced"
        operation_id, newcomer = await joined(rest, brokers[1:])
        await report_sizes(rest, brokers, size_bytes=1_000, but="going")
        await rest.create_topic("new", partitions=2, replication_factor=2)
        await pause(rest, [*brokers[1:], newcomer], 1_000)
        assert (await operation(rest, operation_id))["blocked"][0]["topic"] == "going"
        assert (await rest.client.delete("/clusters/prod/topics/going")).status_code == 202
        await pause(rest, [*brokers[1:], newcomer], 1_000)
        assert (await operation(rest, operation_id))["plan_id"] is not None


async def test_it_can_be_cancelled_while_it_waits(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=3)
        operation_id, newcomer = await joined(rest, brokers)
        await pause(rest, [*brokers, newcomer], 1_000)
        assert (await operation(rest, operation_id))["blocked"][0]["code"] == "sizes_unknown"
        cancelled = await rest.client.post(f"/operations/{operation_id}:cancel", json={})
        assert cancelled.status_code == 202, cancelled.text
        await pause(rest, [*brokers, newcomer], 1_000)
        over = await operation(rest, operation_id)
        assert (over["state"], over["blocked"]) == ("cancelled", [])
