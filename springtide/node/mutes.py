"""Connections that are not read from for a while (KIP-219), and the one task that ends each mute in time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Protocol

import trio

from springtide.node.clock import Clock

ENDED_MAX: Final = 1_000
"""Mutes of connections that are closed may pile up to this, and to as many as the others, before they are
swept out."""


class Muted(Protocol):
    """A connection, as its mute's end sees it. muted_until_ms: 0 once the mute has ended."""

    muted_until_ms: int

    @property
    def closed(self) -> bool: ...

    def end_mute(self, now_ms: int) -> None: ...


class Mutes:
    """The mutes that have begun, the one that ends first in front."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: list[tuple[int, int, Muted]] = []
        self._sequence = count()
        self._swept = 0
        self._wake = trio.Event()

    def add(self, connection: Muted) -> None:
        """Take in a connection whose mute has begun, or goes on for longer."""
        heappush(self._ends, (connection.muted_until_ms, next(self._sequence), connection))
        if self._ends[0][2] is connection:
            self._wake.set()
        if len(self._ends) > 2 * self._swept + ENDED_MAX:
            self._ends = [entry for entry in self._ends if _is_due(entry)]
            heapify(self._ends)
            self._swept = len(self._ends)

    def __len__(self) -> int:
        return len(self._ends)

    def expire(self) -> int | None:
        """End the mutes whose time is over. Return the time until the next one ends; None without any."""
        now_ms = self._clock.mono_ms()
        while self._ends:
            until_ms, _, connection = self._ends[0]
            is_due = _is_due(self._ends[0])
            if is_due and until_ms > now_ms:
                return until_ms - now_ms
            heappop(self._ends)
            if is_due:
                connection.end_mute(now_ms)
        return None

    async def run(self) -> None:
        while True:
            self._wake = trio.Event()
            wait_ms = self.expire()
            if wait_ms is None:
                await self._wake.wait()
            else:
                with self._clock.timeout_ms(wait_ms):
                    await self._wake.wait()


def _is_due(entry: tuple[int, int, Muted]) -> bool:
    """Return whether the mute ends by this entry: its connection is open, and it was not made longer."""
    until_ms, _, connection = entry
    return not connection.closed and connection.muted_until_ms == until_ms
