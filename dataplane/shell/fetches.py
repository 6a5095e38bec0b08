"""The waits of fetches on the process's clock: core/fetches.py decides, one task ends them."""

from __future__ import annotations

from collections.abc import Callable

import trio

from dataplane.core.fetch_session import FetchSession, FetchSessions
from dataplane.core.fetches import EMPTY_PARTITIONS_MAX, Evaluate, Fetch, Respond, WaitingFetches
from springtide.node.clock import Clock


class Fetches(WaitingFetches):
    def __init__(
        self,
        *,
        sessions: FetchSessions,
        evaluate: Evaluate,
        respond: Respond,
        clock: Clock,
        holds_lease: Callable[[int], bool],
        empty_partitions_max: int = EMPTY_PARTITIONS_MAX,
    ) -> None:
        super().__init__(
            sessions=sessions,
            evaluate=evaluate,
            respond=respond,
            holds_lease=holds_lease,
            empty_partitions_max=empty_partitions_max,
        )
        self._clock = clock
        self._timer_armed_ms: int | None = None
        self._wake_timer = trio.Event()

    def start(self, fetch: Fetch) -> None:
        """Answer now if there is reason to, else park."""
        self.take(fetch, now_ms=self._clock.mono_ms())

    def wake(self) -> None:
        """End the turn: answer each fetch that waits for what the turn changed."""
        if self.has_news:
            self.answer_woken(now_ms=self._clock.mono_ms())

    def hurry(self, session: FetchSession) -> None:
        """Answer the fetch that waits in this session, if there is one."""
        self.end_wait_of(session, now_ms=self._clock.mono_ms())

    def expire(self) -> int | None:
        """Answer what has waited long enough. Milliseconds until there is something to do again, or None."""
        return self.end_waits(now_ms=self._clock.mono_ms())

    def _arm(self, fetch: Fetch) -> None:
        super()._arm(fetch)
        if self._timer_armed_ms is None or fetch.deadline_ms < self._timer_armed_ms:
            self._wake_timer.set()

    async def run_timers(self, end_turn: Callable[[], None]) -> None:
        """The one task for all waits: a fetch that is answered in time costs no timer of trio's."""
        while True:
            self._wake_timer = trio.Event()
            self._timer_armed_ms = -1  # no wake-up is needed while we look
            wait_ms = self.expire()
            self._timer_armed_ms = None if wait_ms is None else self._clock.mono_ms() + wait_ms
            end_turn()  # which may shorten a wait, and then wakes this task
            if wait_ms is None:
                await self._wake_timer.wait()
            else:
                with self._clock.timeout_ms(wait_ms):
                    await self._wake_timer.wait()
