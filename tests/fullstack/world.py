"""What all parts of one run share: time, chance by purpose, things that happen later, and the trace.

The trace is a running hash over everything that crosses a border (network segments, disk work, log lines,
operations of clients) with its time. Two runs whose digests agree did the same.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

import trio

from tests.fullstack.clock import NS_PER_MS, NS_PER_S, VirtualClock

RECENT_MAX = 400
WALL_START_MS = 1_700_000_000_000


class Timer:
    """Something that will be called."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class World:
    """One run's. `pump` must run for timers to be called."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.seed = seed
        self.clock = clock
        self.recent: deque[str] = deque(maxlen=RECENT_MAX)
        self.events = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._scope = trio.CancelScope()

    # Time

    @property
    def now_ns(self) -> int:
        return self.clock.now_ns

    @property
    def now_ms(self) -> int:
        return self.clock.now_ns // NS_PER_MS

    def after_ns(self, delay_ns: int, call: Callable[[], None]) -> Timer:
        """Calls later, in the order of time, and of asking where times are equal."""
        return self.at_ns(self.clock.now_ns + max(0, delay_ns), call)

    def after_ms(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        return self.after_ns(int(delay_ms * NS_PER_MS), call)

    def at_ns(self, due_ns: int, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self._sequence += 1
        heappush(self._heap, (due_ns, self._sequence, timer))
        self._scope.deadline = min(self._scope.deadline, due_ns / NS_PER_S)
        return timer

    async def pump(self) -> None:
        """Calls what is due, for ever. A call that raises ends the run: it is the harness that is broken."""
        while True:
            heap = self._heap
            while heap and heap[0][0] <= self.clock.now_ns:
                _, _, timer = heappop(heap)
                if timer.call is not None:
                    timer.call()
            self._scope = trio.CancelScope()
            if heap:
                self._scope.deadline = heap[0][0] / NS_PER_S
            with self._scope:
                await trio.sleep_forever()

    # By the names that the schedules of tests/simulation use.

    def after(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        return self.after_ms(delay_ms, call)

    def at(self, at_ms: int, call: Callable[[], None]) -> Timer:
        return self.at_ns(at_ms * NS_PER_MS, call)

    # Chance

    def random(self, *purpose: object) -> Random:
        """A generator of its own for each purpose: what one draws shifts nobody else's."""
        return Random("/".join(map(str, (self.seed, *purpose))))

    # The trace

    def trace(self, what: str, data: bytes | memoryview = b"") -> None:
        """Something crossed a border."""
        self.events += 1
        self._hash.update(b"%d %s " % (self.clock.now_ns, what.encode()))
        self._hash.update(data)

    def note(self, what: str) -> None:
        """The same, and worth showing to a person."""
        self.trace(what)
        self.recent.append(f"{self.clock.now_ns / NS_PER_S:11.6f}  {what}")

    def digest(self) -> str:
        return self._hash.hexdigest()
