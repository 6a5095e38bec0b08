"""What all parts of one run share: time, chance by purpose, things that happen later, and the trace.

The trace is a running hash over everything that crosses a border (network segments, disk work, log lines,
operations of clients) with its time. Two runs whose digests agree did the same.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from random import Random

from tests.fullstack.clock import NS_PER_MS, NS_PER_S, VirtualClock
from tests.simulation.events import Timer

RECENT_MAX = 400
WALL_START_MS = 1_700_000_000_000


class World:
    """One run's."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.seed = seed
        self.clock = clock
        self.recent: deque[str] = deque(maxlen=RECENT_MAX)
        self.events = 0
        self._hash = hashlib.blake2b(digest_size=16)

    # Time

    @property
    def now_ns(self) -> int:
        return self.clock.now_ns

    @property
    def now_ms(self) -> int:
        return self.clock.now_ns // NS_PER_MS

    def after_ns(self, delay_ns: int, call: Callable[[], object]) -> Timer:
        """Calls later, in the order of time, and of asking where times are equal."""
        return self.at_ns(self.clock.now_ns + max(0, delay_ns), call)

    def after_ms(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        return self.after_ns(int(delay_ms * NS_PER_MS), call)

    def at_ns(self, due_ns: int, call: Callable[[], object]) -> Timer:
        return self.clock.call_at(due_ns, call)

    # By the names that the schedules of tests/simulation use.

    def after(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        return self.after_ms(delay_ms, call)

    def at(self, at_ms: int, call: Callable[[], object]) -> Timer:
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
