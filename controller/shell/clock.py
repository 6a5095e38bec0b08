"""Time and fresh identifiers, as ports: the shell asks them, a simulation answers in virtual time from its
seed.

Nothing in the controller may call `time.*`, `random.*` or `uuid` itself: a node whose clock drifts, jumps or
stands still, and a run that replays from its seed, are both only possible when every question goes through
here.
"""

from __future__ import annotations

import base64
import time
from contextlib import AbstractContextManager
from typing import Protocol

import anyio

#: CLOCK_BOOTTIME goes on while the machine sleeps; CLOCK_MONOTONIC stops, and a laptop that wakes up would
#: believe in leases that ended hours ago (docs/replication.md 2.9, leases).
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

ID_BYTES = 16


class ControllerClock(Protocol):
    """Milliseconds, always whole."""

    def now_mono_ms(self) -> int:
        """Elapsed time from an arbitrary start; never goes back. The only base for leases and timeouts."""
        ...

    def now_wall_ms(self) -> int:
        """Milliseconds since 1970 UTC, for people and audit rows. May jump; nothing is decided by it."""
        ...

    async def sleep_ms(self, duration_ms: int) -> None: ...

    def timeout_ms(self, duration_ms: int) -> AbstractContextManager[anyio.CancelScope]:
        """Cancel its block after the duration, silently; the scope's `cancelled_caught` tells."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_mono_ms(self) -> int:
        return time.clock_gettime_ns(_ELAPSED_CLOCK) // 1_000_000

    def now_wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        await anyio.sleep(max(0, duration_ms) / 1000)

    def timeout_ms(self, duration_ms: int) -> AbstractContextManager[anyio.CancelScope]:
        return anyio.move_on_after(max(0, duration_ms) / 1000)


class RandomBytes(Protocol):
    """`os.urandom`, or a seeded stream in a simulation."""

    def __call__(self, count: int, /) -> bytes: ...


class Ids:
    """Makes identifiers that never repeat, from the random bytes that it is given."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes

    def new_id(self) -> str:
        """22 characters of URL-safe base64 of 16 random bytes: Kafka's textual form of a uuid."""
        while True:
            text = base64.urlsafe_b64encode(self._random_bytes(ID_BYTES)).rstrip(b"=").decode("ascii")
            # Like Kafka's Uuid.randomUuid(): a leading dash looks like a flag on a command line.
            if not text.startswith("-"):
                return text
