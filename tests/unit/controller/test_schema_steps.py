"""The database follows the levels of the clusters: never ahead of one, and without a restart."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from controller import schema_steps
from controller.database import migrate, schema
from controller.schema_steps import follow_levels, lowest_level, make_ready
from controller.shell.clock import SystemClock
from controller.shell.meta import Create, SetData
from springtide.levels import NEWEST
from tests.kit.memory.zookeeper import MemoryMeta, MemoryZooKeeper

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_steps, "LEVELS_EVERY_MS", 5)
    monkeypatch.setattr(schema_steps, "RETRY_MS", 5)


@pytest.fixture
async def meta() -> MemoryMeta:
    connected = MemoryZooKeeper().connect()
    connected.start_write([Create("/clusters", b"")])
    return connected


def add_cluster(meta: MemoryMeta, name: str, level: bytes | None) -> None:
    rows = [Create(f"/clusters/{name}", b"")]
    if level is not None:
        rows.append(Create(f"/clusters/{name}/level", level))
    meta.start_write(rows)


async def test_no_cluster_holds_the_level_down_and_the_lowest_one_does(meta: MemoryMeta) -> None:
    assert await lowest_level(meta) == NEWEST
    add_cluster(meta, "new", b'{"level":1,"version":0,"change":{}}')
    assert await lowest_level(meta) == 1
    add_cluster(meta, "later", b'{"level":7}')
    assert await lowest_level(meta) == 1
    add_cluster(meta, "old", None)
    assert await lowest_level(meta) == 0


async def test_without_a_cluster_the_release_of_the_active_controller_counts(meta: MemoryMeta) -> None:
    meta.start_write(
        [Create("/controllers", b""), Create("/controllers/active", b'{"url":"http://c1:8080"}')]
    )
    assert await lowest_level(meta) == 0
    meta.start_write([SetData("/controllers/active", b'{"levels":{"lowest":0,"highest":1}}', 0)])
    assert await lowest_level(meta) == 1
    meta.start_write([SetData("/controllers/active", b'{"levels":{"lowest":8,"highest":9}}', 1)])
    assert await lowest_level(meta) == NEWEST
    meta.start_write([SetData("/controllers/active", b"?", 2)])
    assert await lowest_level(meta) == 0


async def test_a_level_that_cant_be_read_holds_everything_back(meta: MemoryMeta) -> None:
    add_cluster(meta, "broken", b"\x00")
    assert await lowest_level(meta) == 0


async def test_a_revision_waits_for_the_last_cluster_and_comes_without_a_restart(
    meta: MemoryMeta, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the newest revision were this release's."""
    monkeypatch.setitem(schema.OLDEST_LEVELS, schema.HEAD, NEWEST)
    url, clock = f"sqlite:///{tmp_path / 'audit.db'}", SystemClock()
    newest = b'{"level":%d}' % NEWEST
    add_cluster(meta, "a", newest)
    add_cluster(meta, "b", None)
    revision = await make_ready(url, clock)
    assert revision == "0010"
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow_levels, url, revision, meta, clock)
            await anyio.sleep(0.1)
            assert migrate.current_revision(url) == "0010"
            meta.disconnect()
            await anyio.sleep(0.05)
            meta.reconnect()
            meta.start_write([Create("/clusters/b/level", b'{"level":1}')])
            await anyio.sleep(0.1)
            assert migrate.current_revision(url) == "0010"
            meta.start_write([SetData("/clusters/b/level", newest, 0)])
    assert migrate.current_revision(url) == schema.HEAD
    with anyio.fail_after(5):
        await follow_levels(url, await make_ready(url, clock), meta, clock)
