"""What counts as held and deaf."""

from __future__ import annotations

from controller.shell.loop_watch import BEAT_MS, LATE_MS, LoopWatch


class World:
    """A clock to be set, and whether heartbeats are counted."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.is_heard = True
        self.watch = LoopWatch(lambda: self.now_ms, is_heard=lambda: self.is_heard)
        self.watch.deaf_ms()

    def after(self, elapsed_ms: int) -> int:
        """Deaf in all, asked after so long."""
        self.now_ms += elapsed_ms
        return self.watch.deaf_ms()


def test_ordinary_lateness_is_not_counted_and_a_hold_is() -> None:
    world = World()
    assert [world.after(BEAT_MS + LATE_MS) for _ in range(100)][-1] == 0
    assert world.after(BEAT_MS + LATE_MS + 7_000) == 7_000


def test_a_hold_that_still_goes_on_is_counted_by_whoever_asks_in_it() -> None:
    """A tick may be the first to run after a hold, before the heartbeats that arrived in it."""
    world = World()
    assert world.after(3_000) == 3_000 - BEAT_MS - LATE_MS
    assert world.after(0) == 3_000 - BEAT_MS - LATE_MS


def test_time_without_authority_is_counted_whole() -> None:
    world = World()
    world.is_heard = False
    assert [world.after(BEAT_MS) for _ in range(4)][-1] == 4 * BEAT_MS
    world.is_heard = True
    assert [world.after(BEAT_MS) for _ in range(4)][-1] == 5 * BEAT_MS


def test_the_longest_hold_stays() -> None:
    world = World()
    for late_ms in (0, 40, 1_700, 3):
        world.watch.beat(late_ms)
    assert world.watch.held_ms_max == 1_700
