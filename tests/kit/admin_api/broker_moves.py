"""Brokers that join a cluster of tests/kit/admin_api/rest.py, and the operations that add them."""

from __future__ import annotations

from typing import Any

from tests.kit.admin_api.plans import operation
from tests.kit.admin_api.rest import Rest
from tests.kit.controller.shell import Broker

BROKERS = "/clusters/prod/brokers"


async def accepted(rest: Rest, path: str, **body: Any) -> str:
    response = await rest.client.post(path, json=body)
    assert response.status_code == 202, response.text
    operation_id: str = response.json()["id"]
    return operation_id


async def join(rest: Rest, broker_id: int, peers: list[Broker]) -> Broker:
    """A broker that was started, was found in order from both sides, and goes on beating."""
    broker = Broker(rest.engine, broker_id)
    rest.listeners.open("127.0.0.1", 9000 + broker_id)
    await broker.register()
    for each in (*peers, broker):
        await each.heartbeat()
        await each.report_preflight()
    return broker


async def become_active(rest: Rest, broker: Broker, operation_id: str) -> None:
    for _ in range(20):
        await rest.clock.sleep_ms(250)
        if (await operation(rest, operation_id))["state"] != "preflight":
            break
    await broker.heartbeat()
    await broker.apply()
    await broker.heartbeat()


def spec(broker_id: int, **fields: Any) -> dict[str, Any]:
    return {"broker_id": broker_id, "endpoint": f"127.0.0.1:{9000 + broker_id}"} | fields
