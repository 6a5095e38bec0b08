"""A node's clocks over virtual time: its monotonic clock runs at a rate, its wall clock can jump.

The monotonic clock never goes back and counts suspended time, as CLOCK_BOOTTIME does; it may go forward with
a start (a virtual machine that was moved). Timers go by it.
"""

from __future__ import annotations

from typing import Any

from springtide.node.clock import BrokerClock
from tests.simulation.events import MS, Events

#: What true wall clocks show when a run begins; early enough before it for a clock that leaps back.
WALL_START_MS = 1_700_000_000_000


class NodeClock:
    __slots__ = ("_anchor_ns", "_events", "_mono_ns", "rate", "wall_offset_ms")

    def __init__(self, events: Events) -> None:
        self._events = events
        self._anchor_ns = 0
        self._mono_ns = 0
        self.rate = 1.0
        self.wall_offset_ms = 0

    @property
    def mono_ms(self) -> int:
        now_ns = self._events.now_ns
        if self.rate == 1.0:
            return (self._mono_ns + now_ns - self._anchor_ns) // MS
        return (self._mono_ns + int((now_ns - self._anchor_ns) * self.rate)) // MS

    @property
    def wall_ms(self) -> int:
        """Never before 1970."""
        return max(0, self.true_wall_ms + self.wall_offset_ms)

    @property
    def true_wall_ms(self) -> int:
        return WALL_START_MS + self._events.now_ns // MS

    def run_at(self, rate: float) -> None:
        """From now on so many of its seconds pass in a true one."""
        now_ns = self._events.now_ns
        self._mono_ns += int((now_ns - self._anchor_ns) * self.rate)
        self._anchor_ns = now_ns
        self.rate = rate

    def jump_forward(self, ms: int) -> None:
        """The monotonic clock, and with it the wall clock."""
        assert ms >= 0
        self._mono_ns += ms * MS
        self.wall_offset_ms += ms

    def true_ms(self, ms: float) -> float:
        """How much virtual time passes while this clock counts `ms`."""
        return ms if self.rate == 1.0 else ms / self.rate


class _Readings:
    """A node's clocks as the product's Clock reads them."""

    def __init__(self, clock: NodeClock) -> None:
        self._clock = clock

    def mono_ms(self) -> int:
        return self._clock.mono_ms

    def wall_ms(self) -> int:
        return self._clock.wall_ms


def timekeeper(clock: NodeClock) -> BrokerClock:
    """Of a broker's process that starts now. It waits by the simulation's timers."""
    readings: Any = _Readings(clock)
    return BrokerClock(readings)
