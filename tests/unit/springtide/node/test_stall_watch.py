"""Holds of a process's loop, as its watch counts them."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from springtide.node.counters import NodeCounters
from springtide.node.stall_watch import STALL_LOGGED_MS_MIN, STALL_MS_MIN, StallWatch
from tests.kit.clocks import ManualClock


def figures(counters: NodeCounters) -> tuple[int, int]:
    return counters.loop_stalls, counters.loop_stall_ms_max


def test_a_hold_is_the_time_from_one_wait_to_the_next() -> None:
    clock, counters = ManualClock(), NodeCounters()
    watch = StallWatch(clock, counters)
    for held_ms in (STALL_MS_MIN - 1, STALL_MS_MIN, STALL_MS_MIN + 30, STALL_MS_MIN + 10):
        clock.now_ms += held_ms
        watch.before_io_wait(10.0)
        clock.now_ms += 5_000  # a wait is no hold
        watch.after_io_wait(10.0)
    assert figures(counters) == (3, STALL_MS_MIN + 30)


def test_a_loop_that_is_woken_too_late_was_held_since_the_time_it_had_asked_for() -> None:
    clock, counters = ManualClock(), NodeCounters()
    watch = StallWatch(clock, counters)
    watch.before_io_wait(0.1)
    clock.now_ms += 100 + STALL_MS_MIN - 10
    watch.after_io_wait(0.1)
    clock.now_ms += 10
    watch.before_io_wait(0.1)
    assert figures(counters) == (1, STALL_MS_MIN)


def test_it_watches_the_loop_that_runs_it_and_tells_of_a_long_hold(caplog: pytest.LogCaptureFixture) -> None:
    clock, counters = ManualClock(), NodeCounters()

    async def test() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(StallWatch(clock, counters).run)
            await trio.testing.wait_all_tasks_blocked()
            clock.now_ms += STALL_LOGGED_MS_MIN
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        clock.now_ms += STALL_LOGGED_MS_MIN  # the watch has ended
        await trio.testing.wait_all_tasks_blocked()

    with caplog.at_level(logging.WARNING):
        trio.run(test)
    assert figures(counters) == (1, STALL_LOGGED_MS_MIN)
    assert [record.getMessage() for record in caplog.records] == [f"loop_held ms={STALL_LOGGED_MS_MIN}"]
