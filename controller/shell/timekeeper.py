"""The controller's clocks: wall time that does not follow a leap, because more than one clock vouches for it.

The other clock is ZooKeeper's: every READ_EVERY_MS a znode is written, and read for the time of that write.
What rows are stamped with and what is removed by time goes by the agreement (agreed_time.py). Brokers are
told this machine's own wall clock, as it is: they compare it with theirs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

import anyio

from controller.shell.clock import ControllerClock
from controller.shell.meta import (
    ANY_VERSION,
    Committed,
    Create,
    Meta,
    MetaUnavailable,
    Operation,
    Rejected,
    SetData,
    WriteRejection,
)
from springtide.contract.agreed_time import AgreedTime
from springtide.contract.session import ClockLeap

CLOCK_PATH: Final = "/clock"
READ_EVERY_MS: Final = 10_000
RETRY_MS: Final = 1_000


class Timekeeper:
    """A ControllerClock. `run` asks ZooKeeper; until it has, nothing expires."""

    def __init__(self, clock: ControllerClock, meta: Meta) -> None:
        self._clock = clock
        self._meta = meta
        self._agreed = AgreedTime()

    def now_mono_ms(self) -> int:
        return self._clock.now_mono_ms()

    def now_wall_ms(self) -> int:
        return self._agreed.stamp_ms(wall_ms=self.own_wall_ms(), mono_ms=self.now_mono_ms())

    def own_wall_ms(self) -> int:
        """Return this machine's wall clock, wrong or right."""
        return self._clock.now_wall_ms()

    async def sleep_ms(self, duration_ms: int) -> None:
        await self._clock.sleep_ms(duration_ms)

    def timeout_ms(self, duration_ms: int) -> AbstractContextManager[anyio.CancelScope]:
        return self._clock.timeout_ms(duration_ms)

    def expiry_ms(self) -> int | None:
        """Return the time up to which things have expired; None while nothing may be removed by time."""
        return self._agreed.expiry_ms(wall_ms=self.own_wall_ms(), mono_ms=self.now_mono_ms())

    def leap(self) -> ClockLeap | None:
        return self._agreed.leap(wall_ms=self.own_wall_ms(), mono_ms=self.now_mono_ms())

    async def run(self) -> None:
        """Ask ZooKeeper every READ_EVERY_MS, and RETRY_MS after a failure, without end."""
        while True:
            is_told = await self._ask()
            await self.sleep_ms(READ_EVERY_MS if is_told else RETRY_MS)

    async def _ask(self) -> bool:
        sent_ms = self.now_mono_ms()
        try:
            if not await self._write():
                return False
            node = await self._meta.get(CLOCK_PATH)  # never behind our own write
        except MetaUnavailable:
            return False
        if node is None:
            return False
        self._agreed.on_reading(
            node.modified_ms, sent_ms=sent_ms, wall_ms=self.own_wall_ms(), mono_ms=self.now_mono_ms()
        )
        return True

    async def _write(self) -> bool:
        operation: Operation = SetData(CLOCK_PATH, b"", ANY_VERSION)
        outcome = await self._meta.start_write([operation]).outcome()
        if isinstance(outcome, Rejected) and outcome.reason is WriteRejection.NO_NODE:
            outcome = await self._meta.start_write([Create(CLOCK_PATH, b"")]).outcome()
        return isinstance(outcome, Committed)
