"""Lookups in parts of a log that may have to come from a disk, done by a few threads beside the loop.

A lookup reads; it decides nothing. What it found goes back to the loop, where the replica looks again at who
leads and what the log still holds. Requests queue here as values, not as tasks: a request for very many
partitions costs a list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio

from dataplane.core.log_port import LogError, LogPort, TimestampHit
from dataplane.core.results import TimestampLookup
from springtide.node.threads import Threads

LOOKUP_THREADS_MAX = 2

Found = TimestampHit | LogError | None


@dataclass(frozen=True, slots=True)
class _Job:
    log: LogPort
    lookup: TimestampLookup
    done: Callable[[Found], None]


class Lookups:
    """`spawn` starts a task of the broker's, whose end sends what it completed: so a lookup is a task."""

    def __init__(
        self,
        *,
        threads: Threads,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._spawn = spawn
        self._waiting: deque[_Job] = deque()
        self._workers = 0
        self._threads = threads
        self._limiter = trio.CapacityLimiter(LOOKUP_THREADS_MAX)

    def start(self, log: LogPort, lookup: TimestampLookup, done: Callable[[Found], None]) -> None:
        """`done` is called on the loop, with what was found or what went wrong."""
        self._waiting.append(_Job(log, lookup, done))
        if self._workers < LOOKUP_THREADS_MAX:
            self._workers += 1
            self._spawn(self._work)

    async def _work(self) -> None:
        job = self._waiting.popleft()
        found = await self._threads.run(partial(look_up, job.log, job.lookup), limiter=self._limiter)
        if self._waiting:
            self._spawn(self._work)
        else:
            self._workers -= 1
        job.done(found)


def look_up(log: LogPort, lookup: TimestampLookup) -> Found:
    """Look a timestamp up, on the loop or in a thread."""
    try:
        if lookup.timestamp_ms is None:
            return log.find_max_timestamp(end_offset=lookup.end_offset)
        return log.find_timestamp(lookup.timestamp_ms, end_offset=lookup.end_offset)
    except LogError as error:
        return error
