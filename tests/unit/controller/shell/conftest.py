"""The shell's tests run on trio in virtual time: waiting costs nothing, and two runs are the same run."""

from __future__ import annotations

import pytest
import trio.testing

from tests.simulation.memory_zookeeper import MemoryMeta, MemoryZooKeeper
from tests.unit.controller.shell.shell_parts import VirtualClock


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def meta(zookeeper: MemoryZooKeeper) -> MemoryMeta:
    return zookeeper.connect()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()
