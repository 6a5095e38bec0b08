"""Clocks for unit tests. Each stands in for a broker's clock and for a controller's.

VirtualClock goes with the event loop, ManualClock when the test moves it, EagerClock when a task sleeps. The
simulated clusters have clocks of their own, which run fast, slow and wrong (tests/simulation/clock.py,
tests/fullstack/process_life.py).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

WALL_START_MS = 1_700_000_000_000


class VirtualClock:
    """The running event loop's time: with trio.testing.MockClock it passes when all tasks wait.

    wall_ahead_ms: how far ahead the wall clock was set.
    """

    def __init__(self) -> None:
        self.wall_ahead_ms = 0

    def mono_us(self) -> int:
        return round(anyio.current_time() * 1_000_000)

    def mono_ms(self) -> int:
        return round(anyio.current_time() * 1_000)

    def wall_ms(self) -> int:
        return WALL_START_MS + self.mono_ms() + self.wall_ahead_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        await anyio.sleep(max(0.0, duration_ms) / 1_000)

    def timeout_ms(self, duration_ms: float) -> Any:
        return anyio.move_on_after(max(0.0, duration_ms) / 1_000)

    now_mono_ms = mono_ms
    now_wall_ms = wall_ms


class ManualClock:
    """Moves only when a test moves it or a thread sleeps by it. A task must not wait by it.

    wall_ahead_ms: how far ahead the wall clock was set. slept_s: how long threads slept, in order.
    """

    def __init__(self, now_ms: int = 1_000) -> None:
        self.now_ms = now_ms
        self.wall_ahead_ms = 0
        self.slept_s: list[float] = []

    def mono_us(self) -> int:
        return self.now_ms * 1_000

    def mono_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return WALL_START_MS + self.now_ms + self.wall_ahead_ms

    def sleep_s(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_ms += math.ceil(seconds * 1_000)

    async def sleep_ms(self, duration_ms: float) -> None:
        raise AssertionError("a task sleeps by a clock that only the test moves")

    def timeout_ms(self, duration_ms: float) -> Any:
        raise AssertionError("a task waits by a clock that only the test moves")

    now_mono_ms = mono_ms
    now_wall_ms = wall_ms


class EagerClock(ManualClock):
    """Sleeping moves it at once; each sleep lets the test act. slept_ms: how long tasks slept, in order."""

    def __init__(self, on_sleep: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint) -> None:
        super().__init__()
        self.slept_ms: list[float] = []
        self._on_sleep = on_sleep

    async def sleep_ms(self, duration_ms: float) -> None:
        self.slept_ms.append(duration_ms)
        self.now_ms += math.ceil(duration_ms)
        await self._on_sleep()
