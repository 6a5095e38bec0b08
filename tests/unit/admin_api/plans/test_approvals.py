"""On a protected cluster a plan moves nothing before a second person has approved exactly that plan."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from admin_api.plans.approvals import are_two_persons
from tests.kit.admin_api.plans import DRAIN, PLANS, protect
from tests.kit.admin_api.reassignments import formed
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PARTITION = "/clusters/prod/topics/orders/partitions/0"


async def by(rest: Rest, who: str | None, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    named = headers | ({} if who is None else {"X-Actor": who})
    return await rest.post(path, {"reason": "r"} | body, **named)


async def made(rest: Rest, who: str = "alice") -> str:
    """A plan's path."""
    response = await by(rest, who, PLANS, DRAIN)
    assert response.status_code == 201, response.text
    return f"{PLANS}/{response.json()['id']}"


async def approve(rest: Rest, plan: str, who: str | None, *, query: str = "") -> httpx.Response:
    tag = (await rest.client.get(plan)).headers["etag"]
    return await by(rest, who, f"{plan}:approve{query}", {}, If_Match=tag)


async def execute(rest: Rest, plan: str, who: str = "alice") -> str:
    """The operation's path."""
    tag = (await rest.client.get(plan)).headers["etag"]
    response = await by(rest, who, f"{plan}:execute", {}, If_Match=tag)
    assert response.status_code == 202, response.text
    return str(response.headers["location"])


async def state_of(rest: Rest, operation: str) -> str:
    await rest.clock.sleep_ms(1_000)
    return str((await rest.client.get(operation)).json()["state"])


async def replicas(rest: Rest) -> list[int]:
    found: list[int] = (await rest.client.get(PARTITION)).json()["replicas"]
    return found


async def test_an_operation_waits_until_somebody_else_approves_its_plan(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await protect(rest)
        plan = await made(rest)
        operation = await execute(rest, plan)
        assert await state_of(rest, operation) == "awaiting_approval"
        assert await replicas(rest) == [1, 2, 3]
        assert problem(await approve(rest, plan, "alice")) == (403, "same_person")
        assert problem(await approve(rest, plan, None)) == (403, "same_person")
        assert (await approve(rest, plan, "bob", query="?dry_run=true")).status_code == 200
        assert await state_of(rest, operation) == "awaiting_approval"
        approved = await approve(rest, plan, "bob")
        assert approved.status_code == 200, approved.text
        approval = approved.json()["approval"]
        assert approval["actor"].startswith("unverified:bob@")
        assert approval["content_hash"] == approved.json()["content_hash"]
        assert await state_of(rest, operation) == "running"
        assert sorted(await replicas(rest)) == [1, 2, 3, 4]
        assert (await approve(rest, plan, "bob")).status_code == 200
        assert problem(await approve(rest, plan, "carol")) == (409, "plan_approved")
        (first, *_) = await rest.recorded(kind="request", cause="approve_plan")
        assert first["reason"] == "r"


async def test_a_plan_that_is_approved_before_does_not_wait(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await protect(rest)
        plan = await made(rest)
        assert (await approve(rest, plan, "bob")).status_code == 200
        assert await state_of(rest, await execute(rest, plan)) == "running"


async def test_whoever_asked_for_the_operation_does_not_approve_it(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await protect(rest)
        plan = await made(rest, "alice")
        operation = await execute(rest, plan, "bob")
        assert problem(await approve(rest, plan, "bob")) == (403, "same_person")
        assert (await approve(rest, plan, "carol")).status_code == 200
        assert await state_of(rest, operation) == "running"


async def test_what_waits_can_be_cancelled_and_then_not_be_approved(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await protect(rest)
        plan = await made(rest)
        operation = await execute(rest, plan)
        assert (await by(rest, "alice", f"{operation}:cancel", {})).status_code == 202
        assert await state_of(rest, operation) == "cancelled"
        assert problem(await approve(rest, plan, "bob")) == (409, "plan_executed")
        assert await replicas(rest) == [1, 2, 3]


async def test_an_operation_that_plans_by_itself_waits_for_approval_too(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await protect(rest)
        broker = await rest.client.get("/clusters/prod/brokers/1")
        drain = await by(rest, "alice", "/clusters/prod/brokers/1:drain", {}, If_Match=broker.headers["etag"])
        assert drain.status_code == 202, drain.text
        operation = drain.headers["location"]
        assert await state_of(rest, operation) == "awaiting_approval"
        assert await replicas(rest) == [1, 2, 3]
        plan = f"{PLANS}/{(await rest.client.get(operation)).json()['plan_id']}"
        assert problem(await approve(rest, plan, "alice")) == (403, "same_person")
        assert (await approve(rest, plan, "bob")).status_code == 200
        assert await state_of(rest, operation) == "running"
        assert sorted(await replicas(rest)) == [1, 2, 3, 4]


async def test_nothing_is_moved_by_hand_past_the_second_person(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await protect(rest)
        tag = {"If-Match": (await rest.client.get(PARTITION)).headers["etag"]}
        body = {"replicas": [4, 2, 3], "reason": "r"}
        moved = await rest.client.put(f"{PARTITION}/assignment", json=body, headers=tag)
        assert problem(moved) == (409, "approval_required")
        tried = await rest.client.put(f"{PARTITION}/assignment?dry_run=true", json=body)
        assert tried.status_code == 200
        assert await replicas(rest) == [1, 2, 3]


async def test_the_next_controller_goes_on_waiting(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        await protect(rest)
        plan = await made(rest)
        operation = await execute(rest, plan)
        runner = rest.app.state.operations
        runner._read_under = None  # as a controller that has just become the active one
        assert await state_of(rest, operation) == "awaiting_approval"
        assert (await approve(rest, plan, "bob")).status_code == 200
        assert await state_of(rest, operation) == "running"


@pytest.mark.parametrize(
    ("one", "other", "two"),
    [
        ("alice", "bob", True),
        ("alice", "alice", False),
        ("alice", "Alice", False),
        ("alice", "unverified:alice@10.0.0.7", False),
        ("unverified:alice@10.0.0.7", "unverified:alice@10.0.0.8", False),
        ("unverified:alice@10.0.0.7", "unverified:bob@10.0.0.7", True),
        ("a@example.com", "b@example.com", True),
        ("unverified:a@example.com@10.0.0.7", "a@example.com", False),
        ("anonymous@10.0.0.7", "bob", False),
        ("bob", "anonymous@10.0.0.7", False),
        ("anonymous@10.0.0.7", "anonymous@10.0.0.8", False),
    ],
)
def test_two_persons_are_two_names(one: str, other: str, two: bool) -> None:
    assert are_two_persons(one, other) is two
