"""Virtual time for a whole trio run, and the scheduler's order from a seed.

trio asks its clock how long to sleep only when no task can run. This clock answers by being there already:
a minute of waiting costs nothing, and nothing depends on how fast the machine is. What is left of chance,
the order of tasks that can run at once, trio draws from a generator that we seed.

It keeps timers of its own, too, and calls them where it would let trio sleep. Simulated networks and sleeping
tasks set tens of thousands, and a task that trio wakes by cancelling its sleep costs several times as much.

All times are whole nanoseconds, so that sums of many small waits are exact.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Awaitable, Callable
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

import trio
import trio.abc

from tests.simulation.events import Timer

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
    """Jumps to the next deadline or timer whenever nobody can run."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._passes = 0
        self._timers: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._error: BaseException | None = None
        self._broke = trio.Event()

    def call_at(self, due_ns: int, call: Callable[[], object]) -> Timer:
        """Calls when it is time and no task can run: in the order of time, and of asking where times are
        equal. Outside of every task: it may wake and start tasks, and not wait."""
        timer = Timer(call)
        self._sequence += 1
        heappush(self._timers, (due_ns, self._sequence, timer))
        return timer

    async def sleep_until_ns(self, due_ns: int) -> None:
        """As trio.sleep_until, by a timer."""
        timer = self.call_at(due_ns, partial(trio.lowlevel.reschedule, trio.lowlevel.current_task()))

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            timer.cancel()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def watch_timers(self) -> None:
        """Raises what a timer raised, and returns never: no task is there to hear of it otherwise."""
        await self._broke.wait()
        assert self._error is not None
        raise self._error

    def _call_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self.now_ns:
            call = heappop(timers)[2].call
            if call is not None:
                try:
                    call()
                except Exception as error:
                    self._error = self._error or error
                    self._broke.set()

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
        timers = self._timers
        while timers and timers[0][2].call is None:
            heappop(timers)
        if timers:
            due_ns = min(due_ns, timers[0][0])
        if due_ns > self.now_ns:
            self.now_ns = due_ns
            self._passes = 0
        self._call_due()
        return 0.0


def scheduler_random() -> Random:
    """trio's generator for the order of tasks. Raises AttributeError when trio has moved it, which must be
    noticed: without it a seed says nothing."""
    runner: Any = trio._core._run
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
    runner: Any = trio._core._run

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
