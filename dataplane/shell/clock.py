"""Time as a port: everything in a broker that reads a clock or waits for one does it here.

Leases are counted on CLOCK_BOOTTIME, which goes on while a machine is suspended; CLOCK_MONOTONIC, which
trio's own deadlines follow, does not. A broker that slept through its lease must know it when it wakes.
Wall time is for timestamps that people and retention read, never for deciding who may write.
"""

from __future__ import annotations

import time
from typing import Protocol

import trio

NANOSECONDS_PER_MS = 1_000_000


class Clock(Protocol):
    """Milliseconds, as integers. `mono_ms` never goes back; `wall_ms` is Unix time and may."""

    def mono_ms(self) -> int: ...

    def mono_us(self) -> int: ...

    def wall_ms(self) -> int: ...

    async def sleep_ms(self, duration_ms: float) -> None: ...

    def timeout_ms(self, duration_ms: float) -> trio.CancelScope:
        """A scope that is cancelled after `duration_ms`; `cancelled_caught` says whether it was."""


class SystemClock:
    """The machine's clocks, and trio's timers for waiting."""

    __slots__ = ()

    def mono_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // NANOSECONDS_PER_MS

    def mono_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000

    def wall_ms(self) -> int:
        return time.time_ns() // NANOSECONDS_PER_MS

    async def sleep_ms(self, duration_ms: float) -> None:
        await trio.sleep(max(0.0, duration_ms) / 1000)

    def timeout_ms(self, duration_ms: float) -> trio.CancelScope:
        return trio.move_on_after(max(0.0, duration_ms) / 1000)
