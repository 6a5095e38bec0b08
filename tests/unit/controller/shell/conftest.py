"""A session with ZooKeeper and a clock for each test."""

from __future__ import annotations

import pytest

from tests.kit.clocks import VirtualClock
from tests.kit.memory.zookeeper import MemoryMeta, MemoryZooKeeper


@pytest.fixture
def meta(zookeeper: MemoryZooKeeper) -> MemoryMeta:
    return zookeeper.connect()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()
