"""Measures how long the process's loop was held: heartbeats and answers were late by as much.

It looks where the loop itself stops, before and after each wait for the kernel, and so wakes nothing. A hold
is the time from a wait's end to the next wait. If the wait ended later than the loop had asked for, the
process got no processor; the hold then counts from the time that was asked for.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

import trio

from springtide.node.clock import Clock
from springtide.node.counters import NodeCounters

_log = logging.getLogger(__name__)

STALL_MS_MIN: Final = 50
"""A loop that was held for so long was blocked, or starved of processor time."""
STALL_LOGGED_MS_MIN: Final = 1_000


class StallWatch(trio.abc.Instrument):
    """counters: get each stall."""

    def __init__(self, clock: Clock, counters: NodeCounters) -> None:
        self._clock = clock
        self._counters = counters
        self._since_ms = clock.mono_ms()
        self._due_ms = 0.0

    async def run(self) -> None:
        """Watch the running loop until cancelled."""
        self._since_ms = self._clock.mono_ms()
        trio.lowlevel.add_instrument(self)
        try:
            await trio.sleep_forever()
        finally:
            with suppress(KeyError):  # trio removes an instrument that has failed
                trio.lowlevel.remove_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        now_ms = self._clock.mono_ms()
        self._due_ms = now_ms + timeout * 1_000
        held_ms = now_ms - self._since_ms
        if held_ms >= STALL_MS_MIN:
            self._note(held_ms)

    def after_io_wait(self, timeout: float) -> None:
        now_ms = self._clock.mono_ms()
        self._since_ms = now_ms if now_ms <= self._due_ms else int(self._due_ms)

    def _note(self, held_ms: int) -> None:
        self._counters.loop_stalls += 1
        self._counters.loop_stall_ms_max = max(self._counters.loop_stall_ms_max, held_ms)
        if held_ms >= STALL_LOGGED_MS_MIN:
            _log.warning("loop_held ms=%d", held_ms)
