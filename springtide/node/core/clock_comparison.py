"""The distance of the controller's wall clock from ours, from heartbeats that carry its reading. Pure.

The controller reads its clock between our request and its answer, so the middle of the two is wrong by half
the round trip at most (Cristian's algorithm). Of the last few heartbeats the one with the shortest round trip
is the most exact.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from springtide.contract.preflight import ClockFigures

READINGS_MAX: Final = 8


class ClockComparison:
    def __init__(self) -> None:
        self._readings: deque[ClockFigures] = deque(maxlen=READINGS_MAX)

    def on_reading(self, controller_wall_ms: int, *, wall_ms: int, round_trip_ms: int) -> None:
        """Take in a reading. wall_ms: our clock when the answer came."""
        error_ms = -(-max(0, round_trip_ms) // 2)
        ahead_ms = controller_wall_ms - (wall_ms - error_ms)
        self._readings.append(ClockFigures(ahead_ms=ahead_ms, error_ms=error_ms))

    @property
    def figures(self) -> ClockFigures | None:
        """Return the best reading, the latest of equal ones (a clock may have been set); None without any."""
        return min(reversed(self._readings), key=lambda reading: reading.error_ms, default=None)
