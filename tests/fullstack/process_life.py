"""One life of one process: alive, paused or dead, and everything that must stop with it.

A process that is killed gets no chance to clean up, and neither may a simulated one: cancelling its tasks
runs their `finally` blocks, so everything it could reach the world through is fenced first. A paused process
does nothing while time goes on: whatever would wake it (a timer, a byte, a finished disk operation, an
answer of ZooKeeper) waits at `running`, and its timeouts expire only when it goes on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import trio

from tests.fullstack.clock import NS_PER_MS, NS_PER_S
from tests.fullstack.world import WALL_START_MS, World

RATE_ERROR_MAX = 0.02
BASE_MS_MAX = 10_000_000


@dataclass(slots=True)
class WallClock:
    """A machine's wall clock, over the lives of its process: by how much it was set wrong."""

    wall_offset_ms: int = 0


class Life:
    """`name` is the process's over all its lives, `number` this one's."""

    def __init__(self, world: World, name: str, number: int, wall: WallClock | None = None) -> None:
        self.world = world
        self.name = name
        self.number = number
        self.is_dead = False
        self.scope = trio.CancelScope()
        self.clock = NodeClock(world, self, wall or WallClock())
        self.timeouts: dict[Timeout, None] = {}
        #: Waits that no cancellation ends, but death does.
        self.shields: dict[trio.CancelScope, None] = {}
        self._resumed: trio.Event | None = None

    @property
    def is_paused(self) -> bool:
        return self._resumed is not None

    async def running(self) -> None:
        """Returns when the process may run."""
        while self._resumed is not None:
            await self._resumed.wait()

    def pause(self) -> None:
        assert self._resumed is None
        self._resumed = trio.Event()
        for timeout in self.timeouts:
            timeout.hold()

    def resume(self) -> None:
        assert self._resumed is not None
        self._resumed.set()
        self._resumed = None
        for timeout in self.timeouts:
            timeout.release()

    def die(self) -> None:
        """After the fences are up."""
        self.is_dead = True
        for shield in self.shields:
            shield.cancel()
        self.scope.cancel()


class Timeout:
    """A cancel scope whose time stands still with its process's."""

    __slots__ = ("_due", "_life", "scope")

    def __init__(self, life: Life, due: float) -> None:
        self._life = life
        self._due = due
        self.scope = trio.CancelScope(deadline=math.inf if life.is_paused else due)

    def hold(self) -> None:
        self.scope.deadline = math.inf

    def release(self) -> None:
        self.scope.deadline = self._due

    def __enter__(self) -> trio.CancelScope:
        self._life.timeouts[self] = None
        return self.scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._life.timeouts.pop(self, None)
        return self.scope.__exit__(kind, error, trace)


class NodeClock:
    """A machine's clocks: they begin anywhere and run a little too fast or too slow, and the wall clock may
    be set. The Clock port of brokers and of controllers."""

    def __init__(self, world: World, life: Life, wall: WallClock) -> None:
        self._world = world
        self._life = life
        random = world.random("clock", life.name)  # of the machine: each of its lives finds the same
        self.rate = 1.0 + random.uniform(-RATE_ERROR_MAX, RATE_ERROR_MAX)
        self._base_us = random.randrange(BASE_MS_MAX) * 1_000
        self._wall_ms = WALL_START_MS + random.randint(-500, 500)
        self._wall = wall

    def mono_us(self) -> int:
        return self._base_us + int(self._world.now_ns * self.rate) // 1_000

    def mono_ms(self) -> int:
        return self.mono_us() // 1_000

    def wall_ms(self) -> int:
        """Kept right by NTP, unless somebody sets it."""
        return self._wall_ms + self._wall.wall_offset_ms + self._world.now_ns // NS_PER_MS

    now_mono_ms = mono_ms
    now_wall_ms = wall_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        duration_ns = int(max(0.0, duration_ms) * NS_PER_MS / self.rate)
        await self._world.clock.sleep_until_ns(self._world.now_ns + duration_ns)
        await self._life.running()

    def timeout_ms(self, duration_ms: float) -> Timeout:
        seconds = max(0.0, duration_ms) / 1000 / self.rate
        return Timeout(self._life, self._world.now_ns / NS_PER_S + seconds)

    def timeout_s(self, seconds: float | None) -> Timeout:
        """None: never."""
        return Timeout(self._life, math.inf) if seconds is None else self.timeout_ms(seconds * 1000)


class Shield:
    """`with Shield(life):` no cancellation reaches the block, except that of the process's death."""

    __slots__ = ("_life", "_scope")

    def __init__(self, life: Life) -> None:
        self._life = life
        self._scope = trio.CancelScope(shield=True)

    def __enter__(self) -> Self:
        self._life.shields[self._scope] = None
        if self._life.is_dead:
            self._scope.cancel()
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._life.shields.pop(self._scope, None)
        return self._scope.__exit__(kind, error, trace)
