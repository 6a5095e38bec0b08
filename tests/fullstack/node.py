"""A machine and its process over many lives: what brokers, controllers and coordinators have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar

import trio

from dataplane.core.log_port import LogError
from tests.fullstack.process_life import Life, WallClock

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

RESTART_MS = 1_000
"""After a process ended by itself: what supervises it starts it again."""
BOOT_MS = (2, 50)
"""From a process's start to its first act."""


class Node:
    """`cluster` runs it. It keeps its machine and address over its lives; a kind of node says in `_run` what
    its process does, and in `exit_errors` which errors end that process instead of the whole run."""

    exit_errors: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.machine = cluster.network.add(name)
        self.clock = WallClock()
        self.process: Life | None = None
        #: The number of this life, or of the last one.
        self.life = 0
        self._cluster = cluster
        self._wants_shutdown = False

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self.process.is_dead

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    @property
    def wants_shutdown(self) -> bool:
        return self._wants_shutdown

    @wants_shutdown.setter
    def wants_shutdown(self, is_wanted: bool) -> None:
        """SIGTERM: a controlled shutdown, after which the process is gone. One that does not run yet goes
        on."""
        stops = self._stops()
        if is_wanted and not self._wants_shutdown and stops is not None:
            self._wants_shutdown = True
            assert self.process is not None
            self._cluster.spawn(self._shut_down, self.process, stops)

    def start(self) -> None:
        if self.is_up:
            return
        self.life += 1
        self._wants_shutdown = False
        self.process = Life(self._cluster.world, self.name, self.life, self.clock)
        self._cluster.world.note(f"{self.name} starts, life {self.life}")
        self._cluster.spawn(self._live, self.process)

    def crash(self) -> None:
        """SIGKILL: the kernel ends the process's connections."""
        self._kill()

    def _kill(self) -> bool:
        if not self._die():
            return False
        self._cluster.world.note(f"{self.name} is killed")
        for listener in list(self.machine.listeners.values()):
            listener.kernel_close()
        for channel in list(self.machine.channels):
            channel.kernel_close()
        return True

    def _die(self) -> bool:
        """End this life, and nothing else; return whether there was one."""
        life = self.process
        if life is None or life.is_dead:
            return False
        self.process = None
        life.die()
        return True

    def pause(self) -> None:
        assert self.process is not None
        self.process.pause()
        self._cluster.world.note(f"{self.name} is paused")

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self._cluster.world.note(f"{self.name} goes on")
            self.process.resume()

    # The process

    async def _live(self, life: Life) -> None:
        reason = ""
        with life.scope:
            try:
                await life.clock.sleep_ms(life.world.random("boot", self.name, life.number).uniform(*BOOT_MS))
                await self._run(life)
            except* self.exit_errors as group:
                reason = f"{group.exceptions[0]!r}"
            except* Exception as group:
                if not life.is_dead:
                    self._cluster.fail(f"{self.name} crashed", group)
        if not life.is_dead:
            self._on_exit(life, reason)

    async def _run(self, life: Life) -> None:
        raise NotImplementedError

    def _stops(self) -> Callable[[], Awaitable[object]] | None:
        """Return how the process stops in order; None if it can't, or does not run yet."""
        return None

    async def _shut_down(self, life: Life, stop: Callable[[], Awaitable[object]]) -> None:
        with trio.CancelScope() as scope:
            life.shields[scope] = None  # so that it ends with the process
            try:
                await stop()
            except (LogError, OSError) as error:
                self._cluster.world.note(f"{self.name}: no clean shutdown: {error}")
            life.shields.pop(scope, None)
        if not life.is_dead:
            self._cluster.world.note(f"{self.name} has stopped")
            self._kill()

    def _on_exit(self, life: Life, reason: str) -> None:
        """The process ended by itself."""
        self._cluster.world.note(f"{self.name} exits: {reason}")
        self.crash()

        def again() -> None:
            if self.life == life.number and not self.is_up:
                self.start()

        self._cluster.world.after_ms(RESTART_MS, again)
