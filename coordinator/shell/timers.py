"""One shard's timers: a task that sleeps until the first of them, and runs only while there is one.

A member's heartbeats put its session's timer off again and again before it is ever due. A timer that is set
to a later time therefore costs nothing on the heap: the entry that is there finds, when its time comes, that
it has to wait on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from heapq import heappop, heappush
from itertools import count

import trio

from springtide.node.clock import Clock

Spawn = Callable[[Callable[[], Awaitable[None]]], None]


class ShardTimers:
    """fire: called with the key of a timer when it is due, once."""

    def __init__(self, *, clock: Clock, spawn: Spawn, fire: Callable[[Hashable], None]) -> None:
        self._clock = clock
        self._spawn = spawn
        self._fire = fire
        self._due: dict[Hashable, int] = {}
        #: When the first entry of each key comes up.
        self._queued: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._sequence = count()
        self._is_running = False
        self._wake = trio.Event()

    def set(self, key: Hashable, at_ms: int | None) -> None:
        """Set a timer, in the place of an earlier one of its key; None cancels. at_ms: monotonic."""
        if at_ms is None:
            self._due.pop(key, None)
            return
        self._due[key] = at_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or at_ms < queued_ms:
            self._queue(key, at_ms)

    def hasten(self, key: Hashable) -> None:
        """Fire a timer now, if it is set."""
        if self._due.pop(key, None) is not None:
            self._fire(key)

    def stop(self) -> None:
        self._due.clear()
        self._queued.clear()
        self._heap.clear()
        self._wake.set()

    def _queue(self, key: Hashable, at_ms: int) -> None:
        self._queued[key] = at_ms
        heappush(self._heap, (at_ms, next(self._sequence), key))
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run)
        elif self._heap[0][0] == at_ms:
            self._wake.set()

    async def _run(self) -> None:
        while self._heap:
            at_ms, _, key = self._heap[0]
            wait_ms = at_ms - self._clock.mono_ms()
            if wait_ms > 0:
                self._wake = trio.Event()
                with self._clock.timeout_ms(wait_ms):
                    await self._wake.wait()
                continue
            heappop(self._heap)
            if self._queued.get(key) != at_ms:  # the timer was set to an earlier time since
                continue
            del self._queued[key]
            due_ms = self._due.get(key)
            if due_ms is not None and due_ms > at_ms:
                self._queue(key, due_ms)
            elif due_ms is not None:
                self.hasten(key)
                await trio.lowlevel.checkpoint()  # many may be due at once
        self._is_running = False
