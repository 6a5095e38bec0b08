"""Threads as a port: work that may block on a disk runs beside the loop, and the loop awaits it.

A simulation runs the same work in place, after a delay of its own choosing, so that a whole broker can live
in one thread and be replayed from a seed. So nothing in a broker may start a thread but through here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class Threads(Protocol):
    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        """What `work` returns or raises. It is never given up half way: a caller that is cancelled meanwhile
        waits for its end. `limiter`: how many at once; by default as many as trio allows."""


class WorkerThreads:
    """trio's."""

    __slots__ = ()

    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        return await trio.to_thread.run_sync(work, limiter=limiter)
