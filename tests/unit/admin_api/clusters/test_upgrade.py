"""An upgrade over REST: its status, what stands in its way, and its end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import sqlalchemy as sa

from controller.shell.levels import RUNNING_PATH, RunningRow
from controller.shell.meta import Node
from controller.shell.rows import level_path
from springtide.levels import NEWEST, RELEASES, SUPPORTED, Level, LevelRange
from springtide.version import VERSION
from tests.kit.admin_api.rest import ACTOR, Rest, controller, problem
from tests.kit.clocks import VirtualClock
from tests.kit.controller.shell import Broker, begin_term, make_cluster
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

FINALIZE = "/clusters/prod:finalize-upgrade"
BEFORE = SUPPORTED.lowest
OLDER = LevelRange(Level(BEFORE - 1), BEFORE)
CAN_NOT = f"can run at levels {BEFORE - 1} to {BEFORE} only"
SET_BACK = sa.text("update alembic_version set version_num = '0009'")


@asynccontextmanager
async def at_level_before(zookeeper: MemoryZooKeeper, *levels: LevelRange) -> AsyncIterator[Rest]:
    """A cluster of the release before under a controller of this one, with brokers that can run at these."""
    meta = zookeeper.connect()
    await make_cluster(meta, await begin_term(meta, VirtualClock()), level=BEFORE)
    async with controller(zookeeper) as rest:
        for number, each in enumerate(levels, start=1):
            broker = Broker(rest.engine, number)
            broker.request = msgspec.structs.replace(broker.request, levels=each, version="0.x")
            await broker.register()
        await rest.clock.sleep_ms(1_000)
        yield rest


async def test_its_status_shows_each_process_and_what_stands_in_the_way(zookeeper: MemoryZooKeeper) -> None:
    async with at_level_before(zookeeper, SUPPORTED, OLDER) as rest:
        shown = (await rest.client.get("/clusters/prod/upgrade")).json()
    assert shown == {
        "level": BEFORE,
        "release": RELEASES[BEFORE],
        "target_level": NEWEST,
        "target_release": RELEASES[NEWEST],
        "can_finalize": False,
        "blockers": [
            {
                "kind": "broker",
                "name": "broker 2",
                "reason": f"{CAN_NOT}: start it with release {RELEASES[NEWEST]}",
            }
        ],
        "pending_since_ms": None,
        "processes": [
            {
                "kind": "controller",
                "id": "c1",
                "name": "http://c1:8080",
                "version": VERSION,
                "lowest_level": BEFORE,
                "highest_level": NEWEST,
                "is_running": True,
                "is_active": True,
            },
            {
                "kind": "broker",
                "id": "1",
                "name": "broker 1",
                "version": "0.x",
                "lowest_level": BEFORE,
                "highest_level": NEWEST,
                "is_running": True,
                "is_active": False,
            },
            {
                "kind": "broker",
                "id": "2",
                "name": "broker 2",
                "version": "0.x",
                "lowest_level": BEFORE - 1,
                "highest_level": BEFORE,
                "is_running": True,
                "is_active": False,
            },
        ],
    }


async def test_it_is_refused_while_a_process_stands_in_the_way_in_a_dry_run_too(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with at_level_before(zookeeper, OLDER) as rest:
        for path in (FINALIZE, f"{FINALIZE}?dry_run=true"):
            refused = await rest.post(path, {})
            assert problem(refused) == (409, "upgrade_blocked")
            assert f"broker 1 {CAN_NOT}" in refused.json()["detail"]
        assert rest.engine.cluster("prod").image.level == BEFORE


async def test_a_standby_of_the_old_release_stands_in_the_way(zookeeper: MemoryZooKeeper) -> None:
    async with at_level_before(zookeeper, SUPPORTED) as rest:
        row = RunningRow(controller_id="c9", url="http://c9:1", version="0.1.9", levels=OLDER)
        zookeeper.nodes[f"{RUNNING_PATH}/c9"] = Node(msgspec.json.encode(row), 0, 99, 1, 0)
        refused = await rest.post(FINALIZE, {})
        assert problem(refused) == (409, "upgrade_blocked")
        assert f"http://c9:1 {CAN_NOT}" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("drop table alembic_version", "has no tables yet"),
        ("update alembic_version set version_num = '0009'", "is at revision 0009, and 0011 is needed"),
        ("update alembic_version set version_num = '9999'", "is at revision '9999', which this release"),
    ],
)
async def test_a_database_that_lacks_something_stands_in_the_way(
    zookeeper: MemoryZooKeeper, statement: str, reason: str
) -> None:
    async with at_level_before(zookeeper, SUPPORTED) as rest:
        await rest.store.write(lambda connection: connection.execute(sa.text(statement)))
        shown = (await rest.client.get("/clusters/prod/upgrade")).json()
        assert [(one["kind"], one["name"]) for one in shown["blockers"]] == [("database", "the database")]
        assert shown["blockers"][0]["reason"].startswith(reason)
        assert not shown["can_finalize"]
        refused = await rest.post(f"{FINALIZE}?dry_run=true", {})
        assert problem(refused) == (409, "upgrade_blocked")
        assert f"the database {reason}" in refused.text


async def test_it_is_finalized_once_by_a_person_who_can_be_found_in_the_history(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with at_level_before(zookeeper, SUPPORTED) as rest:
        planned = await rest.post(f"{FINALIZE}?dry_run=true", {})
        raised = {"level": NEWEST, "release": RELEASES[NEWEST]}
        assert planned.json() == {"level_before": BEFORE, "dry_run": True} | raised
        assert json.loads(zookeeper.nodes[level_path("prod")].data)["level"] == BEFORE
        done = await rest.post(FINALIZE, {"reason": "it has run for a week"})
        assert done.json() == {"level_before": BEFORE, "dry_run": False} | raised
        assert json.loads(zookeeper.nodes[level_path("prod")].data)["level"] == NEWEST
        again = await rest.post(FINALIZE, {"reason": "twice"})
        assert again.json() == {"level_before": NEWEST, "dry_run": False} | raised
        shown = (await rest.client.get("/clusters/prod/upgrade")).json()
        assert (shown["level"], shown["can_finalize"], shown["blockers"]) == (NEWEST, False, [])
        rows = [row for row in await rest.recorded() if row["cause"] == "upgrade_finalized"]
        (row,) = rows
        assert (row["actor"], row["reason"], row["entity"]) == (ACTOR, "it has run for a week", "cluster")
        assert (row["before"]["level"], row["after"]["level"]) == (BEFORE, NEWEST)


async def test_a_controller_that_can_not_run_at_the_level_is_not_ready_and_says_why(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with at_level_before(zookeeper, SUPPORTED) as rest:
        assert (await rest.client.get("/readyz")).json()["stands_not"] is None
        rest.engine.leadership.why_not = "cluster 'prod' is at level 9"
        answer = await rest.client.get("/readyz")
        assert problem(answer) == (503, "not_ready")
        assert "level 9" in answer.json()["detail"]


async def test_a_database_that_the_next_level_can_not_use_stands_in_the_way(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with at_level_before(zookeeper, SUPPORTED) as rest:
        await rest.store.write(lambda connection: connection.execute(SET_BACK))
        shown = (await rest.client.get("/clusters/prod/upgrade")).json()
        assert [(one["kind"], one["name"]) for one in shown["blockers"]] == [("database", "the database")]
        assert shown["blockers"][0]["reason"].startswith("is at revision 0009, and 0011 is needed")
        assert not shown["can_finalize"]
        refused = await rest.post(FINALIZE, {})
        assert problem(refused) == (409, "upgrade_blocked")
        assert "the database is at revision 0009" in refused.json()["detail"]
