"""What a later release has stored is listed as it is, refused by name, and never written by this one."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from controller.database.tables import audit, operations, plans
from controller.operations.model import Spec
from tests.kit.admin_api.plans import PLANS, formed, made
from tests.kit.admin_api.rest import Rest, controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

DRAIN = {"spec": {"type": "broker_drain", "broker_id": 1}, "steps": [{"name": "mark", "state": "running"}]}
LATER: dict[str, tuple[str, str, dict[str, Any]]] = {
    "kind": ("broker_polish", "running", {"spec": {"type": "broker_polish", "shine": 7}, "steps": []}),
    "state": ("broker_drain", "meditating", DRAIN),
    "field": ("broker_drain", "running", DRAIN | {"mood": "calm"}),
    "field-deep": (
        "broker_drain",
        "running",
        DRAIN | {"spec": {"type": "broker_drain", "broker_id": 1, "moves": {"speed": 2}}},
    ),
    "word": ("broker_drain", "running", DRAIN | {"steps": [{"name": "mark", "state": "resting"}]}),
    "nothing": ("broker_drain", "running", {"body": "of another shape"}),
    "finished": ("broker_polish", "succeeded", {"spec": {"type": "broker_polish"}, "steps": []}),
}


async def store_all(rest: Rest) -> None:
    def insert(connection: sa.Connection) -> None:
        for number, (name, (kind, state, body)) in enumerate(LATER.items()):
            row = {
                "id": f"op_{name}",
                "kind": kind,
                "cluster": "prod",
                "state": state,
                "actor": "later",
                "created_at_ms": number,
                "deadline_at_ms": 0,
                "body": body,
                "revision": 3,
            }
            connection.execute(operations.insert().values(row))

    await rest.store.write(insert)


async def stored(rest: Rest) -> list[Any]:
    statement = sa.select(operations).order_by(operations.c.created_at_ms)
    return await rest.store.read(lambda connection: list(map(tuple, connection.execute(statement))))


async def test_each_is_listed_and_shown_and_left_alone_by_the_active_controller(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as first:
        await first.form()
        await store_all(first)
        before = await stored(first)
        # As after a takeover: everything unfinished is read again.
        first.app.state.operations._read_under = None
        await first.clock.sleep_ms(5_000)
        assert await stored(first) == before
        assert first.app.state.operations.running() == ()
        found = (await first.client.get("/operations")).json()["items"]
        assert [one["id"] for one in reversed(found)] == [f"op_{name}" for name in LATER]
        shown = {one["id"]: one for one in found}
        for name, (kind, state, _) in LATER.items():
            one = (await first.client.get(f"/operations/op_{name}")).json()
            assert (one["kind"], one["state"]) == (kind, state)
            assert one == shown[f"op_{name}"]
            assert "a later release has stored operation" in one["summary"]
        assert shown["op_kind"]["spec"] == {"shine": 7}
        stream = await first.client.get("/operations/op_finished/events")
        assert '"kind":"broker_polish"' in stream.text


@pytest.mark.parametrize("name", [name for name in LATER if name != "finished"])
async def test_no_verb_touches_one(zookeeper: MemoryZooKeeper, name: str) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await store_all(rest)
        before = await stored(rest)
        refused = (409, "stored_by_later_release")
        for verb in ("cancel", "pause", "resume"):
            assert problem(await rest.post(f"/operations/op_{name}:{verb}", {})) == refused
        patched = await rest.client.patch(f"/operations/op_{name}", json={"throttle_bytes_per_s": 7})
        assert problem(patched) == refused
        assert problem(await rest.client.get(f"/operations/op_{name}/moves")) == refused
        assert await stored(rest) == before


async def test_a_finished_one_is_not_undone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await store_all(rest)
        undone = await rest.post("/operations/op_finished:undo", {})
        assert problem(undone) == (409, "stored_by_later_release")


async def test_a_plan_with_a_later_goal_is_listed_and_refused(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest)
        plan = await made(rest, {"kind": "drain", "broker_ids": [1]})

        def change(connection: sa.Connection) -> None:
            body = connection.execute(sa.select(plans.c.body)).scalar_one()
            later = body | {"goal": {"type": "polish"}}
            connection.execute(plans.update().values(goal="polish", body=later))

        await rest.store.write(change)
        (listed,) = (await rest.client.get(PLANS)).json()["items"]
        assert (listed["id"], listed["kind"], listed["goal"]) == (plan["id"], "polish", {"kind": "polish"})
        refused = (409, "stored_by_later_release")
        assert problem(await rest.client.get(f"{PLANS}/{plan['id']}")) == refused
        assert problem(await rest.post(f"{PLANS}/{plan['id']}:execute", {})) == refused


async def test_what_only_a_later_release_knows_of_is_not_recorded_as_gone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as first:
        await first.form()
        await first.create_topic()
        await first.recorded()

        def add(connection: sa.Connection) -> None:
            topics = sa.select(audit).where(audit.c.entity == "topic", audit.c.kind == "change")
            row = dict(connection.execute(topics).mappings().one())
            later = {"id": None, "seq": 10**6, "entity": "mirror", "entity_id": "m1", "chain_position": None}
            connection.execute(audit.insert().values({**row, **later, "hash": None, "previous_hash": None}))

        await first.store.write(add)
        first.outbox.backfill("prod")
        assert (await first.recorded(topic="orders"))[0]["entity"] == "mirror"
        assert await first.recorded(cause="removal_not_recorded") == []


def test_a_new_kind_of_operation_needs_a_level() -> None:
    """Releases of level 0 know these kinds only. Another one is begun only in a cluster whose level allows
    it: give it a `Feature` (springtide/levels.py), ask `allows` where it is stored first, and name it
    here."""
    since_level_0 = {
        "broker_add",
        "broker_demote",
        "broker_drain",
        "broker_return",
        "leader_election",
        "partitions_add",
        "plan_execution",
        "preferred_election",
        "reassignment",
        "reassignment_cancel",
        "replication_factor_change",
        "topic_delete",
    }
    assert {str(kind.__struct_config__.tag) for kind in Spec.__args__} == since_level_0
