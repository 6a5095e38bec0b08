"""A broker with several workers is one broker over REST."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kit.admin_api.broker_moves import BROKERS, accepted, spec
from tests.kit.admin_api.plans import made, operation
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

FIVE = (5, 1_000_005)


async def start(rest: Rest, owner_id: int | None, *member_ids: int) -> list[Broker]:
    """Return brokers, or a broker's workers, that have registered and found everything in order."""
    started = []
    for number, member_id in enumerate(member_ids):
        broker = Broker(rest.engine, member_id)
        port = 9_000 + (member_id if owner_id is None else owner_id + 100 * number)
        broker.request = msgspec.structs.replace(broker.request, port=port, worker_of=owner_id)
        rest.listeners.open("127.0.0.1", port)
        await broker.register()
        started.append(broker)
    return started


async def live(*brokers: Broker) -> None:
    for broker in brokers:
        await broker.heartbeat()
        await broker.apply()
        await broker.heartbeat()


async def with_five(rest: Rest) -> list[Broker]:
    """Add brokers 1, 2 and 5, of which 5 has two workers; return all processes."""
    await rest.post("/clusters", {"name": "prod"})
    members = [*await start(rest, None, 1, 2), *await start(rest, 5, *FIVE)]
    for member in members:
        await member.report_preflight()
    brokers = [spec(1), spec(2), spec(5)]
    added = await accepted(rest, BROKERS, brokers=brokers, rebalance={"mode": "none"})
    await rest.clock.sleep_ms(500)
    await live(*members)
    await rest.clock.sleep_ms(500)
    assert (await operation(rest, added))["state"] == "succeeded"
    return members


async def shown(rest: Rest, broker_id: int = 5) -> dict[str, Any]:
    body: dict[str, Any] = (await rest.client.get(f"{BROKERS}/{broker_id}")).json()
    return body


async def test_a_broker_is_added_and_shown_with_its_workers(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await with_five(rest)
        listed = (await rest.client.get(BROKERS)).json()["items"]
        assert [(b["broker_id"], b["state"], len(b["workers"])) for b in listed] == [
            (1, "active", 0),
            (2, "active", 0),
            (5, "active", 2),
        ]
        body = {"name": "orders", "partitions": 6, "replication_factor": 3}
        await rest.post("/clusters/prod/topics", body)
        broker = await shown(rest)
        assert broker == (await rest.client.get(BROKERS)).json()["items"][2]
        assert broker["replicas"] == 6 == sum(worker["replicas"] for worker in broker["workers"])
        assert [
            (worker["worker"], worker["broker_id"], worker["state"], worker["endpoint"], worker["replicas"])
            for worker in broker["workers"]
        ] == [
            (0, 5, "active", "127.0.0.1:9005", 3),
            (1, 1_000_005, "active", "127.0.0.1:9105", 3),
        ]
        cluster = (await rest.client.get("/clusters/prod")).json()
        assert cluster["brokers"]["active"] == 3
        lost = (await rest.client.get("/clusters/prod/resilience?lose=broker:5")).json()
        assert lost["lost_brokers"] == list(FIVE)
        one = (await rest.client.get("/clusters/prod/resilience?lose=broker:1000005")).json()
        assert one["lost_brokers"] == [1_000_005]


async def test_a_worker_that_waits_holds_its_broker_s_admission_up(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        first, second = await start(rest, 5, *FIVE)
        await first.report_preflight()
        added = await accepted(rest, BROKERS, **spec(5))
        await rest.clock.sleep_ms(500)
        waiting = await operation(rest, added)
        assert waiting["state"] == "preflight"
        assert {blocked["broker_id"] for blocked in waiting["blocked"]} == set(FIVE)
        await second.report_preflight()
        await rest.clock.sleep_ms(500)
        await live(first)
        await rest.clock.sleep_ms(500)
        idle = await operation(rest, added)
        assert [blocked["detail"] for blocked in idle["blocked"]] == [
            "worker 1 of broker 5 is admitted and fenced"
        ]
        assert (await shown(rest))["state"] == "fenced"
        await live(second)
        await rest.clock.sleep_ms(500)
        assert (await operation(rest, added))["state"] == "succeeded"


async def test_a_worker_s_own_id_is_refused_with_the_broker_to_name(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await with_five(rest)
        worker = f"{BROKERS}/1000005"
        added = {"broker_id": 1_000_005, "endpoint": "127.0.0.1:9105"}
        for answered, code in (
            (await rest.client.get(worker), (404, "broker_not_found")),
            (await rest.client.patch(worker, json={"cordoned": True}), (404, "broker_not_found")),
            (await rest.client.post(f"{worker}:drain", json={}), (404, "broker_not_found")),
            (await rest.client.post(f"{worker}:demote", json={}), (404, "broker_not_found")),
            (await rest.client.post(f"{worker}:return", json={}), (404, "broker_not_found")),
            (await rest.client.post(BROKERS, json=added), (409, "broker_id_in_use")),
        ):
            assert problem(answered) == code
            assert answered.json()["hint"] == "name broker 5"
            assert "1000005 is worker 1 of broker 5" in answered.json()["detail"]


async def test_a_broker_with_workers_takes_the_places_of_another(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await with_five(rest)
        body = {"name": "orders", "partitions": 6, "replication_factor": 2}
        await rest.post("/clusters/prod/topics", body)
        await start(rest, 6, 6, 1_000_006)
        replacement = {"broker_id": 6, "endpoint": "127.0.0.1:9006", "replaces": 5}
        planned = (await rest.client.post(f"{BROKERS}?dry_run=true", json=replacement)).json()
        goals = [(plan["goal"]["broker_id"], plan["goal"]["replacement"]) for plan in planned["plans"]]
        assert goals == [(5, 6), (1_000_005, 1_000_006)]
        assert planned["moves"] == (await shown(rest))["replicas"]
        plan = await made(rest, {"kind": "drain", "broker_ids": [5]})
        assert plan["goal"]["broker_ids"] == list(FIVE)


async def test_what_is_asked_of_a_broker_is_done_to_its_workers(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        members = await with_five(rest)

        def flags(name: str) -> list[bool]:
            image = rest.engine.cluster("prod").image
            return [getattr(image.brokers[member_id], name) for member_id in FIVE]

        await rest.client.patch(f"{BROKERS}/5", json={"cordoned": True, "rack": "r2"})
        assert (flags("cordoned"), flags("rack")) == ([True] * 2, ["r2"] * 2)
        await rest.client.post(f"{BROKERS}/5:return", json={})
        assert flags("cordoned") == [False] * 2
        await rest.client.post(f"{BROKERS}/5:demote", json={})
        assert flags("demoted") == [True] * 2
        rate = {"leader.replication.throttled.rate": "100000"}
        await rest.client.post(f"{BROKERS}/5/configs:alter", json={"configs": rate})
        assert all(rest.engine.cluster("prod").image.brokers[b].configs for b in FIVE)
        drained = await accepted(rest, f"{BROKERS}/5:drain")
        await rest.clock.sleep_ms(500)
        assert flags("draining") == [True] * 2
        assert (await operation(rest, drained))["state"] == "succeeded"
        assert (await shown(rest))["drained"]
        refused = await rest.client.delete(f"{BROKERS}/5")
        assert problem(refused) == (409, "broker_in_use")
        rest.listeners.kill("127.0.0.1", 9105)
        one = await rest.client.delete(f"{BROKERS}/1000005")
        assert (one.status_code, one.json()["broker_id"]) == (200, 5), one.text
        assert sorted(rest.engine.cluster("prod").image.brokers) == [1, 2, 5]
        rest.listeners.kill("127.0.0.1", 9005)
        removed = await rest.client.delete(f"{BROKERS}/5")
        assert removed.status_code == 200, removed.text
        assert sorted(rest.engine.cluster("prod").image.brokers) == [1, 2]
        assert len(members) == 4
