"""Asynchronous tests run on trio in virtual time: waiting costs nothing, and two runs are the same run."""

from __future__ import annotations

import pytest
import trio.testing

from tests.kit.memory.zookeeper import MemoryZooKeeper


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()
