from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
import trio.testing

from coordinator.shell.timers import ShardTimers
from tests.kit.clocks import VirtualClock


class Bench:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.clock = VirtualClock()
        self.fired: list[tuple[object, int]] = []
        self.tasks = 0
        self._nursery = nursery
        self.timers = ShardTimers(clock=self.clock, spawn=self._spawn, fire=self._fire)
        self.began_ms = self.clock.mono_ms()

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        self.tasks += 1
        self._nursery.start_soon(work)

    def _fire(self, key: object) -> None:
        self.fired.append((key, self.clock.mono_ms() - self.began_ms))

    def set(self, key: str, in_ms: int | None) -> None:
        self.timers.set(key, None if in_ms is None else self.clock.mono_ms() + in_ms)


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await test(Bench(nursery))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_timers_fire_once_in_the_order_of_their_times() -> None:
    async def test(bench: Bench) -> None:
        bench.set("late", 300)
        bench.set("soon", 100)
        bench.set("never", 200)
        bench.set("never", None)
        await trio.sleep(1)
        assert bench.fired == [("soon", 100), ("late", 300)]
        assert bench.tasks == 1
        bench.set("again", 5)
        await trio.sleep(1)
        assert bench.fired[2:] == [("again", 1_005)]

    run(test)


def test_a_timer_that_is_put_off_again_and_again_takes_one_place() -> None:
    async def test(bench: Bench) -> None:
        for _ in range(1_000):
            bench.set("session", 100)
            await trio.sleep(0.001)
        assert len(bench.timers._heap) == 1
        assert bench.fired == []
        await trio.sleep(1)
        assert bench.fired == [("session", 1_099)]

    run(test)


def test_a_timer_that_is_set_to_an_earlier_time_fires_then_and_not_again() -> None:
    async def test(bench: Bench) -> None:
        bench.set("a", 500)
        await trio.sleep(0.1)
        bench.set("a", 100)
        await trio.sleep(1)
        assert bench.fired == [("a", 200)]

    run(test)


def test_a_timer_can_be_hastened_and_what_is_stopped_never_fires() -> None:
    async def test(bench: Bench) -> None:
        bench.set("a", 500)
        bench.timers.hasten("a")
        bench.timers.hasten("unset")
        assert bench.fired == [("a", 0)]
        bench.set("b", 100)
        bench.timers.stop()
        await trio.sleep(1)
        assert bench.fired == [("a", 0)]

    run(test)
