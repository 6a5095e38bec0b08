"""A real ZooKeeper for the tests of a module, and sessions with it that end with their test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from controller.shell.kazoo_meta import KazooMeta
from controller.shell.meta import SessionState
from localcluster.java import find_java
from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper, ZooKeeperPorts

_roots = itertools.count()

OpenMeta = Callable[..., AbstractAsyncContextManager[KazooMeta]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    directory: Path = tmp_path_factory.mktemp("zookeeper")
    with PortReservation() as ports:
        server = ZooKeeper(
            directory=directory,
            ports=[ZooKeeperPorts(ports.reserve_free(), ports.reserve_free(), ports.reserve_free())],
            java=find_java(),
            log_directory=directory,
        )
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def root() -> str:
    """A path of its own for each test, two levels deep and not there yet."""
    return f"/test-{next(_roots)}/springtide"


@pytest.fixture
def open_meta(zookeeper: ZooKeeper, root: str) -> OpenMeta:
    @asynccontextmanager
    async def opened(*, session_timeout_ms: int = 2_000) -> AsyncIterator[KazooMeta]:
        meta = KazooMeta(hosts=zookeeper.connection_string, root=root, session_timeout_ms=session_timeout_ms)
        async with anyio.create_task_group() as tasks:
            await tasks.start(meta.run)
            await until_state(meta, SessionState.CONNECTED)
            await meta.ensure_root()
            yield meta
            tasks.cancel_scope.cancel()

    return opened


async def until_state(meta: KazooMeta, state: SessionState) -> None:
    """Fails after twenty seconds."""
    with anyio.fail_after(20):
        session = meta.session
        while session.state is not state:
            session = await meta.session_changed(session)
