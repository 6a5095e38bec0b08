"""The schedule that lost 520 records loses none with our defaults, and is found out without the promise."""

from __future__ import annotations

from tests.checker.verdict import Kind
from tests.simulation.schedule_2013 import (
    HEALTHY_PERCENT_MIN,
    INTEGERS,
    WRITABLE_MS_MAX,
    lost_records,
    play_control,
    play_default,
)


def test_with_our_defaults_nothing_is_lost_and_the_leader_that_was_cut_off_refuses() -> None:
    run = play_default(3)
    assert run.failures == ()
    assert run.victim == 4  # each broker has its turn
    figures = run.figures()
    assert figures["total"] == INTEGERS
    assert figures["lost"] == 0
    assert figures["read"] >= figures["acknowledged"] > 900
    assert run.refused > 0
    assert run.healthy_percent >= HEALTHY_PERCENT_MIN
    assert run.writable_ms <= WRITABLE_MS_MAX


def test_without_the_promise_records_are_lost_each_is_named_and_was_written_aside() -> None:
    run = play_control(0)
    assert run.failures == ()
    lost = run.figures()["lost"]
    assert 0 < lost == run.checked.bad[Kind.LOST_ACKED] == run.checked.figures.hidden
    named = lost_records(run)
    assert len(named) == min(lost, 100)
    assert all(f"broker-{run.victim} divergent" in line for line in named)
