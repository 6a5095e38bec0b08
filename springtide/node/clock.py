"""Time as a port: a broker reads clocks, and waits for them, only here.

Leases are counted on CLOCK_BOOTTIME, which runs while a machine is suspended; CLOCK_MONOTONIC, which trio's
own deadlines follow, does not. A broker that slept through its lease must know it when it wakes. Wall time is
for timestamps that people and retention read, never for deciding who may write. Where it is stored, or
something is deleted by it, one clock is not enough: see `BrokerClock`.
"""

from __future__ import annotations

import time
from typing import Protocol

import trio

from springtide.contract.agreed_time import AgreedTime
from springtide.contract.session import ClockLeap, HeartbeatResponse

NANOSECONDS_PER_MS = 1_000_000
BEAT_MS_MAX = 1_000


class Clock(Protocol):
    """Milliseconds, as integers. `mono_ms` never goes back; `wall_ms` is Unix time and may."""

    def mono_ms(self) -> int: ...

    def mono_us(self) -> int: ...

    def wall_ms(self) -> int: ...

    async def sleep_ms(self, duration_ms: float) -> None: ...

    def timeout_ms(self, duration_ms: float) -> trio.CancelScope:
        """Return a scope that is cancelled after `duration_ms`; `cancelled_caught` says whether it was."""


class MachineClock:
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


def ms_to_beat(now_ms: int, interval_ms: int) -> int:
    """Return how long work that is done every `interval_ms` waits for its next beat.

    Beats are the multiples of the interval on the monotonic clock, so different work shares its wake-ups: in
    a process at rest a wake-up costs more than the work. The wait is half an interval or more. Rare work may
    need the disk and has no beats: all processes of a host would do it at once.
    """
    if interval_ms > BEAT_MS_MAX:
        return interval_ms
    wait_ms = interval_ms - now_ms % interval_ms
    return wait_ms if 2 * wait_ms >= interval_ms else wait_ms + interval_ms


def last_beat(until_ms: int, interval_ms: int) -> int:
    """Return the last beat until then, for work that may come early and never late."""
    return until_ms - until_ms % interval_ms if 0 < interval_ms <= BEAT_MS_MAX else until_ms


async def sleep_to_beat(clock: Clock, interval_ms: int) -> None:
    """Sleep until work that is done every `interval_ms` is due again."""
    await clock.sleep_ms(ms_to_beat(clock.mono_ms(), interval_ms))


class BrokerClock:
    """The broker's Clock: its wall time does not follow a leap of the machine's (agreed_time.py)."""

    __slots__ = ("_agreed", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._agreed = AgreedTime()

    def mono_ms(self) -> int:
        return self._clock.mono_ms()

    def mono_us(self) -> int:
        return self._clock.mono_us()

    def wall_ms(self) -> int:
        return self._agreed.stamp_ms(wall_ms=self._clock.wall_ms(), mono_ms=self._clock.mono_ms())

    async def sleep_ms(self, duration_ms: float) -> None:
        await self._clock.sleep_ms(duration_ms)

    def timeout_ms(self, duration_ms: float) -> trio.CancelScope:
        return self._clock.timeout_ms(duration_ms)

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int) -> None:
        """Take in the answer to a heartbeat. sent_ms: monotonic."""
        if response.wall_ms >= 0:
            self._agreed.on_reading(
                response.wall_ms,
                sent_ms=sent_ms,
                wall_ms=self._clock.wall_ms(),
                mono_ms=self._clock.mono_ms(),
            )

    def expiry_ms(self) -> int | None:
        """Return the time by which something may have expired; None if nothing may be deleted by time now."""
        return self._agreed.expiry_ms(wall_ms=self._clock.wall_ms(), mono_ms=self._clock.mono_ms())

    def agreed_for_ms(self) -> int:
        """Return for how long the elapsed time has been counted without being set again."""
        since_ms = self._agreed.agreed_since_ms
        return 0 if since_ms is None else self._clock.mono_ms() - since_ms

    def leap(self) -> ClockLeap | None:
        return self._agreed.leap(wall_ms=self._clock.wall_ms(), mono_ms=self._clock.mono_ms())
