"""A simulated process over its lives: up, paused or down, and everything that must wait or stop with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.simulation.clock import NodeClock
from tests.simulation.events import Events, Timer
from tests.simulation.network import Network


class Process:
    """life: the number of this life, or of the last one. Its clock is its machine's."""

    def __init__(self, name: str, events: Events, network: Network) -> None:
        self.name = name
        self.events = events
        self.network = network
        self.clock = NodeClock(events)
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self._parked: list[Callable[[], None]] = []

    def begin_life(self) -> None:
        self.life += 1
        self.is_up = True
        self.is_paused = False

    def end_life(self) -> None:
        """Nothing more is heard, and what waits is forgotten."""
        self.is_up = False
        self.is_paused = False
        self._parked.clear()
        self.network.close(self.name)

    def pause(self) -> None:
        """SIGSTOP: deliveries, completions and timers wait; the world goes on."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        parked, self._parked = self._parked, []
        for call in parked:
            call()

    def run_in_life(self, life: int, call: Callable[[], None]) -> None:
        """Run `call` only in that life, and not while paused. No closure that knows itself: there are so many
        of these that the cycles would cost a third of the run in collecting them."""
        if not self.is_up or self.life != life:
            return
        if self.is_paused:
            self._parked.append(partial(self.run_in_life, life, call))
            return
        call()

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        """Return `call`, for this life."""
        return partial(self.run_in_life, self.life, call)

    def after(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Run `call` when the process's clock has counted so far, in this life."""
        return self.events.after(self.clock.true_ms(delay_ms), self.guarded(call))

    def call(
        self,
        target: str,
        request: Any,
        on_reply: Callable[[Any], None],
        on_timeout: Callable[[], None],
        *,
        timeout_ms: float = 1_000,
        connection: object = None,
    ) -> None:
        """Ask another process. The reply, or the timeout, is heard in this life only."""
        life = self.life

        def replied(reply: Any) -> None:
            self.run_in_life(life, partial(on_reply, reply))

        self.network.call(
            self.name,
            target,
            request,
            replied,
            timeout_ms=self.clock.true_ms(timeout_ms),
            on_timeout=self.guarded(on_timeout),
            connection=connection,
        )
