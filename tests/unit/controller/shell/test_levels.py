"""Levels between controllers: who stands, who says that it runs, and what of a cluster is served."""

from __future__ import annotations

import json
import logging

import anyio
import msgspec
import pytest

from controller.core.events import FinalizeUpgrade, Refusal, UpgradeFinalized
from controller.shell.engine import Engine
from controller.shell.leadership import ACTIVE_PATH, ClaimRow
from controller.shell.levels import RUNNING_PATH, RunningRow
from controller.shell.meta import Node
from controller.shell.outcomes import UnknownCluster, UnreadableCluster
from controller.shell.rows import level_path
from springtide.levels import NEWEST, SUPPORTED
from tests.kit.clocks import VirtualClock
from tests.kit.controller.shell import Broker, begin_term, make_cluster, make_engine, running, until_active
from tests.kit.memory.zookeeper import MemoryMeta, MemoryZooKeeper

pytestmark = pytest.mark.anyio


def put(zookeeper: MemoryZooKeeper, path: str, data: bytes) -> None:
    node = zookeeper.nodes.get(path)
    zookeeper.nodes[path] = Node(data, 0 if node is None else node.version + 1, 0, 1, 0)


def set_level(zookeeper: MemoryZooKeeper, cluster: str, level: int) -> None:
    change = {"cause": "upgrade_finalized", "at_ms": 1}
    put(zookeeper, level_path(cluster), json.dumps({"level": level, "change": change, "version": 1}).encode())


async def test_a_cluster_is_made_at_the_highest_level_by_one_write(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    async with running(engine := make_engine(meta, clock)):
        await engine.create_cluster("prod", configs={}, actor="ann")
        assert engine.cluster("prod").image.level == NEWEST
    (paths,) = writes_of_the_level(zookeeper)
    assert "/clusters/prod" in paths


def writes_of_the_level(zookeeper: MemoryZooKeeper) -> list[list[str]]:
    """The paths of each write that set it."""
    writes = [[operation.path for operation in write.operations] for write in zookeeper.history]
    return [paths for paths in writes if level_path("prod") in paths]


# --- controllers that run ---------------------------------------------------------------------------


async def test_each_controller_tells_its_levels_standbys_too(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    first = make_engine(zookeeper.connect(), clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second):
        await anyio.sleep(1)
        found = await second.controllers()
        assert [(one.process_id, one.name, one.levels, one.is_active) for one in found] == [
            ("c1", "http://c1:8080", SUPPORTED, True),
            ("c2", "http://c2:8080", SUPPORTED, False),
        ]
        claim = msgspec.json.decode(zookeeper.nodes[ACTIVE_PATH].data, type=ClaimRow)
        assert claim.levels == SUPPORTED


async def test_a_controller_tells_them_again_in_its_next_session(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    path = f"{RUNNING_PATH}/c1"
    async with running(make_engine(meta, clock)):
        await anyio.sleep(1)
        before = zookeeper.nodes[path].owner
        meta.lose_session()
        await anyio.sleep(2)
        assert zookeeper.nodes[path].owner == meta.session.session_id != before
        assert msgspec.json.decode(zookeeper.nodes[path].data, type=RunningRow).levels == SUPPORTED


async def test_a_row_of_a_controller_that_can_not_be_read_tells_no_levels(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock
) -> None:
    async with running(engine := make_engine(meta, clock)):
        put(zookeeper, f"{RUNNING_PATH}/c9", b"{}")
        assert {one.process_id: one.levels for one in await engine.controllers()}["c9"] is None


def test_a_claim_that_tells_no_levels_has_the_bytes_of_release_0_1() -> None:
    of_0_1 = b'{"controller_id":"c1","url":"http://c1:8080","controller_epoch":3,"claim_id":"x","halted":{}}'
    claim = msgspec.json.decode(of_0_1, type=ClaimRow)
    assert msgspec.json.encode(claim) == of_0_1


# --- who stands -------------------------------------------------------------------------------------


async def test_a_controller_that_can_not_run_at_a_clusters_level_does_not_stand_and_says_why(
    zookeeper: MemoryZooKeeper, meta: MemoryMeta, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await make_cluster(meta, await begin_term(meta, clock))
    set_level(zookeeper, "prod", NEWEST + 1)
    engine = make_engine(zookeeper.connect(), clock)
    with caplog.at_level(logging.ERROR):
        async with anyio.create_task_group() as tasks:
            await tasks.start(engine.run)
            await anyio.sleep(60)
            assert ACTIVE_PATH not in zookeeper.nodes
            assert engine.leadership.elections_won == 0
            assert engine.leadership.why_not is not None
            assert f"cluster 'prod' is at level {NEWEST + 1}" in engine.leadership.why_not
            assert "install the release that finalized" in engine.leadership.why_not
            # Once it can, it stands: an earlier release finalizes, and this one goes on from there.
            set_level(zookeeper, "prod", NEWEST)
            await until_active([engine])
            assert engine.leadership.why_not is None
            tasks.cancel_scope.cancel()
    assert len([line for line in caplog.messages if "does_not_stand" in line]) == 1


async def test_a_controller_that_finds_a_level_above_its_own_in_its_term_resigns(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """It was raised between the look and the claim."""
    first = make_engine(zookeeper.connect(), clock, name="c1")
    async with running(first):
        await first.create_cluster("prod", configs={}, actor="ann")
    engine = make_engine(zookeeper.connect(), clock, name="c2")

    async def may_serve() -> bool:
        return True

    engine.leadership._may_serve = may_serve  # type: ignore[method-assign]
    set_level(zookeeper, "prod", NEWEST + 1)
    async with anyio.create_task_group() as tasks:
        await tasks.start(engine.run)
        await anyio.sleep(5)
        assert engine.role == "standby"
        assert engine.drivers.get("prod") is None
        tasks.cancel_scope.cancel()


# --- rows of another release ------------------------------------------------------------------------


async def test_a_cluster_that_a_later_release_wrote_is_refused_and_the_others_are_served(
    zookeeper: MemoryZooKeeper, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_engine(zookeeper.connect(), clock, name="c1")
    async with running(first):
        await first.create_cluster("old", configs={}, actor="ann")
        await first.create_cluster("new", configs={}, actor="ann")
    row = json.loads(zookeeper.nodes["/clusters/new"].data) | {"colour": "blue"}
    put(zookeeper, "/clusters/new", json.dumps(row).encode())
    second = make_engine(zookeeper.connect(), clock, name="c2")
    with caplog.at_level(logging.ERROR):
        async with running(second):
            await anyio.sleep(10)
            assert second.clusters() == ["old"]
            await check_refused(second)
    told = [line for line in caplog.messages if "cluster_of_another_release cluster=new" in line]
    assert len(told) == 1
    assert "`colour`" in told[0]
    assert json.loads(zookeeper.nodes["/clusters/new"].data) == row


async def check_refused(engine: Engine) -> None:
    for ask in (lambda: engine.cluster("new"), lambda: engine.drivers.of("new")):
        with pytest.raises(UnreadableCluster) as refused:
            ask()
        assert "/clusters/new has `colour`" in str(refused.value)
        assert "Run controllers of that release instead of this one" in str(refused.value)
    with pytest.raises(UnknownCluster):
        engine.cluster("never was")
    assert list(engine.unreadable) == ["new"]


# --- finalizing -------------------------------------------------------------------------------------


async def test_a_finalized_level_is_written_once_and_read_by_the_next_controller(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    meta = zookeeper.connect()
    await make_cluster(meta, await begin_term(meta, clock), level=SUPPORTED.lowest)
    first = make_engine(zookeeper.connect(), clock, name="c1")
    async with running(first):
        await Broker(first, 1).register()
        assert first.cluster("prod").image.level == SUPPORTED.lowest
        reply = await first.submit(
            "prod", FinalizeUpgrade(wall_ms=1, actor="ann", controllers=await first.controllers())
        )
        assert not isinstance(reply, Refusal)
        assert isinstance(reply, UpgradeFinalized)
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(second):
        assert second.cluster("prod").image.level == NEWEST
    assert len(writes_of_the_level(zookeeper)) == 2, "with that of the cluster's creation"
