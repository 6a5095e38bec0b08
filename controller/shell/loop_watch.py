"""Measures how long the event loop was held, and for how long this controller could therefore hear no broker.

A broker's silence counts against it only while its heartbeats would have been counted. They are not counted
while the loop is held (a long step, a starved process, a paused one) and not while the controller has no
authority (it refuses them then). This account is the sum of both. Drivers take the difference to the last
time they asked off each broker's silence before they judge by it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from controller.shell.clock import ControllerClock

log = logging.getLogger(__name__)

#: How often the loop shows that it runs.
BEAT_MS: Final = 100
#: Lateness of a beat that is ordinary: less than half a heartbeat interval, so no heartbeat is missed by it.
LATE_MS: Final = 150
#: A hold of so long gets a line in the log.
LOGGED_MS_MIN: Final = 1_000


class LoopWatch:
    """One per process.

    now_ms: monotonic. is_heard: whether a heartbeat that arrives now is counted.
    held_ms_max: longest hold since the process started.
    """

    def __init__(self, now_ms: Callable[[], int], *, is_heard: Callable[[], bool]) -> None:
        self.held_ms_max = 0
        self._now_ms = now_ms
        self._is_heard = is_heard
        self._was_heard = False
        self._noted_ms: int | None = None
        self._deaf_ms = 0

    def deaf_ms(self) -> int:
        """Milliseconds, since it was first asked, in which no heartbeat would have been counted."""
        now_ms = self._now_ms()
        elapsed_ms = 0 if self._noted_ms is None else now_ms - self._noted_ms
        self._noted_ms = now_ms
        was_heard, self._was_heard = self._was_heard, self._is_heard()
        is_whole = was_heard and self._was_heard
        self._deaf_ms += max(0, elapsed_ms - BEAT_MS - LATE_MS) if is_whole else elapsed_ms
        return self._deaf_ms

    def beat(self, late_ms: int) -> None:
        """The loop runs, so much later than it should."""
        self.deaf_ms()
        self.held_ms_max = max(self.held_ms_max, late_ms)
        if late_ms >= LOGGED_MS_MIN:
            log.warning("loop_held ms=%d", late_ms)

    async def run(self, clock: ControllerClock) -> None:
        """Beat until cancelled."""
        while True:
            before_ms = self._now_ms()
            await clock.sleep_ms(BEAT_MS)
            self.beat(self._now_ms() - before_ms - BEAT_MS)
