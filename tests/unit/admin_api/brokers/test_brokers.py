from __future__ import annotations

from typing import Any

import pytest

from admin_api.settings import ApiSettings
from springtide.contract.session import BrokerStatus
from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


def spec(broker_id: int, **fields: Any) -> dict[str, Any]:
    return {"broker_id": broker_id, "endpoint": f"127.0.0.1:{9000 + broker_id}"} | fields


def states(operation: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["state"] for step in operation["steps"]}


async def look(rest: Rest, path: str, *, after_ms: int = 500) -> dict[str, Any]:
    await rest.clock.sleep_ms(after_ms)
    body: dict[str, Any] = (await rest.client.get(path)).json()
    return body


async def start(rest: Rest, *broker_ids: int) -> list[Broker]:
    """Brokers that have registered and found everything in order."""
    started = [Broker(rest.engine, broker_id) for broker_id in broker_ids]
    for broker in started:
        rest.listeners.open("127.0.0.1", 9000 + broker.broker_id)
        assert (await broker.register()).status is BrokerStatus.WAITING
    for broker in started:
        await broker.report_preflight()
    return started


async def live(broker: Broker) -> None:
    await broker.heartbeat()
    await broker.apply()
    await broker.heartbeat()


async def test_adding_a_broker_waits_for_it_and_ends_when_it_is_active(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        accepted = await rest.post("/clusters/prod/brokers", spec(4, reason="capacity for Q4"))
        assert (accepted.status_code, accepted.headers["retry-after"]) == (202, "1")
        path = accepted.headers["location"]
        assert path == f"/operations/{accepted.json()['id']}" == accepted.json()["links"]["self"]
        assert states(accepted.json()) == {
            "preflight": "running",
            "register": "pending",
            "plan": "pending",
            "move": "pending",
            "elect": "pending",
        }
        waiting = await look(rest, path)
        assert (waiting["state"], waiting["blocked"][0]["code"]) == ("preflight", "broker_unreachable")
        assert (await rest.client.get("/clusters/prod/brokers")).json()["items"] == []

        (broker,) = await start(rest, 4)
        running = await look(rest, path)
        assert (running["state"], running["blocked"][0]["code"]) == ("running", "broker_not_active")
        await live(broker)
        done = await look(rest, path)
        assert (done["state"], done["blocked"], done["error"]) == ("succeeded", [], None)
        assert set(states(done).values()) == {"succeeded"}
        assert done["summary"] == "brokers 4 are active; there was nothing to move"
        shown = (await rest.client.get("/clusters/prod/brokers/4")).json()
        assert (shown["state"], shown["endpoint"]) == ("active", "127.0.0.1:9004")
        assert shown["last_change"]["cause"] in {"broker_admitted", "broker_unfenced"}
        assert problem(await rest.client.get("/clusters/prod/brokers/5")) == (404, "broker_not_found")


async def test_several_brokers_are_admitted_together_or_not_at_all(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        body = {"brokers": [spec(1), spec(2)], "reason": "first brokers"}
        path = (await rest.post("/clusters/prod/brokers", body)).headers["location"]
        first = await start(rest, 1)
        half = await look(rest, path)
        assert (half["state"], [item["broker_id"] for item in half["blocked"]]) == ("preflight", [2])
        assert (await rest.client.get("/clusters/prod/brokers/1")).json()["state"] == "waiting"
        brokers = first + await start(rest, 2)
        half = await look(rest, path)
        assert [item["detail"] for item in half["blocked"]] == [
            "brokers that have not said yet whom they reach: 1"
        ] * 2
        await brokers[0].report_preflight()
        await rest.clock.sleep_ms(500)
        for broker in brokers:
            await live(broker)
        assert (await look(rest, path))["state"] == "succeeded"
        changes = await rest.recorded(cause="broker_admitted")
        assert {(row["actor"], row["reason"], row["operation_id"]) for row in changes} == {
            ("anonymous@10.0.0.7", "first brokers", path.rpartition("/")[2])
        }
        assert [row["brokers"] for row in changes] == [[2], [1]]


async def test_a_broker_that_registers_elsewhere_fails_the_operation_and_is_not_admitted(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        body = {"brokers": [spec(1), spec(2, endpoint="store2:9092")]}
        path = (await rest.post("/clusters/prod/brokers", body)).headers["location"]
        await start(rest, 1, 2)
        failed = await look(rest, path)
        assert (failed["state"], failed["error"]["code"]) == ("failed", "endpoint_mismatch")
        assert states(failed)["preflight"] == "failed"
        listed = (await rest.client.get("/clusters/prod/brokers?state=waiting")).json()
        assert [broker["broker_id"] for broker in listed["items"]] == [1, 2]


async def test_at_its_deadline_an_operation_fails_and_has_changed_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=ApiSettings(preflight_deadline_ms=10_000)) as rest:
        await rest.post("/clusters", {"name": "prod"})
        path = (await rest.post("/clusters/prod/brokers", spec(1))).headers["location"]
        assert (await look(rest, path, after_ms=9_000))["state"] == "preflight"
        failed = await look(rest, path, after_ms=2_000)
        assert (failed["state"], failed["error"]["code"]) == ("failed", "deadline_exceeded")
        await start(rest, 1)
        assert (await look(rest, path))["state"] == "failed"
        assert (await rest.client.get("/clusters/prod/brokers/1")).json()["state"] == "waiting"


async def test_an_id_held_by_another_endpoint_is_a_conflict(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        refused = await rest.post("/clusters/prod/brokers", spec(1, endpoint="store9:9092"))
        assert problem(refused) == (409, "broker_id_in_use")
        assert (await rest.post("/clusters/prod/brokers", spec(4))).status_code == 202
        assert problem(await rest.post("/clusters/prod/brokers", spec(4))) == (
            409,
            "broker_operation_running",
        )
        repeated = await rest.post("/clusters/prod/brokers", spec(1))
        assert (await look(rest, repeated.headers["location"]))["state"] == "succeeded"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (spec(-1, endpoint="store1:9092"), ["/broker_id"]),
        (spec(2**31, endpoint="store1:9092"), ["/broker_id"]),
        (spec(1, endpoint="store1"), ["/endpoint"]),
        (spec(1, endpoint="store1:0"), ["/endpoint"]),
        (spec(1, endpoint="store1:70000"), ["/endpoint"]),
        (spec(1, endpoint="store1:9092\r\nX: y"), ["/endpoint"]),
        (spec(1, labels={}), ["/labels"]),
        (spec(1, rebalance={"mode": "half"}), ["/rebalance/mode"]),
        (spec(1, rebalance={"throttle_bytes_per_s": 0}), ["/rebalance/throttle_bytes_per_s"]),
        (spec(1, rebalance={"max_concurrent_moves": 1_001}), ["/rebalance/max_concurrent_moves"]),
        (spec(1, rebalance={"not_before": 4_102_444_800}), ["/rebalance/not_before"]),
        (spec(1, rebalance={"not_before": "2100-01-01T00:00:00"}), ["/rebalance/not_before"]),
        (spec(1, replaces=7), ["/replaces"]),
        (spec(1, replaces=1), ["/replaces"]),
        ({"brokers": []}, ["/brokers"]),
        ({"brokers": [spec(1), spec(1)]}, ["/brokers/1/broker_id", "/brokers/1/endpoint"]),
        ({"brokers": [spec(1), {"broker_id": 2}]}, ["/brokers/1/endpoint"]),
        ({}, ["/broker_id", "/endpoint"]),
        ([], [""]),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused_with_its_fields(
    zookeeper: MemoryZooKeeper, body: Any, where: list[str]
) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        response = await rest.post("/clusters/prod/brokers", body)
        assert problem(response) == (422, "invalid_request")
        assert pointers(response) == where


async def test_a_dry_run_says_what_it_would_wait_for(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        plan = await rest.post("/clusters/prod/brokers?dry_run=true", spec(4))
        assert plan.status_code == 200
        assert (plan.json()["moves"], len(plan.json()["warnings"])) == (0, 1)
        assert (await rest.client.get("/operations")).json()["items"] == []


async def test_another_controller_resumes_what_the_first_one_began(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        path = (await rest.post("/clusters/prod/brokers", spec(1))).headers["location"]
        await rest.clock.sleep_ms(500)
        first_epoch = rest.engine.controller_epoch
        rest.meta.expire_at_server()
        await rest.clock.sleep_ms(20_000)
        assert rest.engine.role == "active"
        assert rest.engine.controller_epoch > first_epoch
        (broker,) = await start(rest, 1)
        await rest.clock.sleep_ms(500)
        await live(broker)
        assert (await look(rest, path))["state"] == "succeeded"


async def test_operations_are_listed_newest_first_and_filtered(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        ids = []
        for broker_id in (4, 5, 6):
            await rest.clock.sleep_ms(10)
            ids.append((await rest.post("/clusters/prod/brokers", spec(broker_id))).json()["id"])
        first = (await rest.client.get("/operations?limit=2")).json()
        assert [item["id"] for item in first["items"]] == [ids[2], ids[1]]
        second = (await rest.client.get(f"/operations?page_token={first['next_page_token']}")).json()
        assert ([item["id"] for item in second["items"]], second["next_page_token"]) == ([ids[0]], None)
        assert (await rest.client.get("/operations?state=failed")).json()["items"] == []
        assert len((await rest.client.get("/operations?kind=broker_add&cluster=prod")).json()["items"]) == 3
        assert problem(await rest.client.get("/operations/op_none")) == (404, "operation_not_found")
