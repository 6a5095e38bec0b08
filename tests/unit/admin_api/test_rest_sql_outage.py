"""While SQL is away operators wait and partitions don't; afterwards nothing is missing from the audit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile.aftermath import differences, everything
from tests.simulation.memory_zookeeper import MemoryZooKeeper
from tests.unit.admin_api.rest_parts import Rest, controller, problem, silence

pytestmark = pytest.mark.anyio

ORDERS = "/clusters/prod/topics/orders"
WRITES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/clusters", {"name": "other"}),
    ("POST", "/topics", {"name": "events", "cluster": "prod", "partitions": 1, "replication_factor": 1}),
    ("PATCH", ORDERS, {"partitions": 9}),
    ("DELETE", ORDERS, None),
    ("PUT", f"{ORDERS}/configs/retention.ms", {"value": "5"}),
    ("PUT", f"{ORDERS}/partitions/0/assignment", {"replicas": [2, 3]}),
    ("POST", f"{ORDERS}/partitions/0:elect-leader", {"election": "preferred"}),
    ("POST", "/clusters/prod/brokers", {"broker_id": 9, "endpoint": "store9:9092"}),
    ("PATCH", "/clusters/prod/brokers/2", {"cordoned": True}),
    ("POST", "/clusters/prod/brokers/2:demote", {}),
)


async def leaders(rest: Rest) -> list[int | None]:
    items = (await rest.client.get(f"{ORDERS}/partitions")).json()["items"]
    return [item["leader"] for item in items]


async def test_operators_are_refused_partitions_fail_over_and_no_row_is_missing_afterwards(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, run_outbox=True) as rest:
        brokers = await rest.form()
        await rest.create_topic("orders", partitions=3, replication_factor=3)
        assert len(set(await leaders(rest))) == 3
        written = len(await everything(rest, "/audit"))
        rest.sql.down = True
        before = len(zookeeper.history)
        for method, path, body in WRITES:
            answer = await rest.client.request(method, path, json=body)
            assert problem(answer) == (503, "audit_unavailable"), path
            assert answer.headers["retry-after"] == "1"
        assert len(zookeeper.history) == before, "a change that can't be written down is not made"
        await silence(rest, brokers, 2, 3)
        led_by = await leaders(rest)
        assert set(led_by) == {2, 3}
        assert len(zookeeper.history) > before

        rest.sql.down = False
        with_rows = 0
        for _ in range(20):
            await rest.clock.sleep_ms(1_000)
            with_rows = len(await everything(rest, "/audit"))
            if rest.outbox.depth == 0 and not rest.outbox.behind:
                break
        assert with_rows > written
        assert await differences(rest, zookeeper) == []
        rows = await everything(rest, "/audit?kind=request")
        assert [row["cause"] for row in rows] == ["create_topic"], (
            "what was refused unread is not told as tried"
        )
        verified = (await rest.client.get("/audit/verification", params={"cluster": "prod"})).json()
        assert verified["ok"] is True
        for method, path, body in (WRITES[0], WRITES[4]):
            assert (await rest.client.request(method, path, json=body)).status_code < 300


async def test_what_the_audit_does_not_know_shows_as_a_difference(zookeeper: MemoryZooKeeper) -> None:
    """The comparison has teeth: while rows wait for SQL, it says so."""
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic("orders", partitions=3, replication_factor=3)
        await rest.outbox.flush()
        assert await differences(rest, zookeeper) == []
        await silence(rest, brokers, 2, 3)
        found = await differences(rest, zookeeper)
        assert found
        assert all(line.startswith("audit says") for line in found), found
