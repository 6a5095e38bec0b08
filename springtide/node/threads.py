"""Threads as a port: work that may block on a disk runs beside the loop, and the loop awaits it.

A simulation runs the same work in place, after a delay that it chooses, so that a whole broker lives in one
thread and is replayed from a seed. Therefore a broker starts threads only through this port.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class Threads(Protocol):
    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        """Return or raise what `work` does. A caller that is cancelled meanwhile waits for its end.
        `limiter`: how many run at once; by default as many as trio allows."""


class TrioThreads:
    __slots__ = ()

    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        return await trio.to_thread.run_sync(work, limiter=limiter)
