"""Virtual time for a whole trio run, and the scheduler's order from a seed.

trio asks its clock how long to sleep only when no task can run. This clock answers by being there already:
a minute of waiting costs nothing, and nothing depends on how fast the machine is. What is left of chance,
the order of tasks that can run at once, trio draws from a generator that we seed.

All times are whole nanoseconds, so that sums of many small waits are exact.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import trio
import trio.abc

T = TypeVar("T")

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
PASSES_PER_INSTANT_MAX = 500_000
"""Scheduler passes without time going on, beyond which the run is stuck in a circle."""

END_S = 1e7
"""Nobody waits so long: who gets there had nothing else to wait for."""


class Stuck(Exception):
    """Nothing can ever happen again, or something happens for ever at one instant."""


class VirtualClock(trio.abc.Clock):
    """Jumps to the next deadline whenever nobody can run."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._passes = 0

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        self._passes += 1
        if self._passes > PASSES_PER_INSTANT_MAX:
            raise Stuck(f"{PASSES_PER_INSTANT_MAX} passes at {self.now_ns} ns")
        return self.now_ns / NS_PER_S

    def deadline_to_sleep_time(self, deadline: float) -> float:
        if deadline == math.inf:  # only while trio ends: its own tasks are about to be woken
            return 0.0
        due_ns = math.ceil(deadline * NS_PER_S)
        if due_ns / NS_PER_S < deadline:  # lost in the division's last bit
            due_ns += 1
        if due_ns > self.now_ns:
            self.now_ns = due_ns
            self._passes = 0
        return 0.0


def scheduler_random() -> Random:
    """trio's generator for the order of tasks. Raises AttributeError when trio has moved it, which must be
    noticed: without it a seed says nothing."""
    runner: Any = trio._core._run  # type: ignore[attr-defined]
    _ = runner._ALLOW_DETERMINISTIC_SCHEDULING
    generator = runner._r
    assert isinstance(generator, Random)
    return generator


def run_virtually(seed: int, main: Callable[[VirtualClock], Awaitable[T]]) -> T:
    """Runs `main` to its end in virtual time. Equal seeds run equally, in any process.

    The collector rests meanwhile: when it runs depends on what ran before in this process, and what it
    finalises would then happen at another moment.
    """
    generator = scheduler_random()
    runner: Any = trio._core._run  # type: ignore[attr-defined]

    async def bounded(clock: VirtualClock) -> T:
        with trio.move_on_at(END_S):
            return await main(clock)
        raise Stuck("every task waits, and none for a time")

    was_deterministic = runner._ALLOW_DETERMINISTIC_SCHEDULING
    state = generator.getstate()
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    clock = VirtualClock()
    runner._ALLOW_DETERMINISTIC_SCHEDULING = True
    generator.seed(f"trio {seed}")
    try:
        return trio.run(bounded, clock, clock=clock)
    finally:
        runner._ALLOW_DETERMINISTIC_SCHEDULING = was_deterministic
        generator.setstate(state)
        if was_enabled:
            gc.enable()
