"""A group falls behind when the least that it has yet to read grows from each period to the next."""

from __future__ import annotations

from coordinator.core.lag_watch import PERIOD_MS, PERIODS, LagWatch

LOOKS = 4
SEEN = PERIODS + 1
"""Periods, with the one before it grew."""


def watched(*lags: int | None, watch: LagWatch | None = None, first: int = 0) -> LagWatch:
    """A group's lag, LOOKS times a period."""
    found = LagWatch() if watch is None else watch
    for number, lag in enumerate(lags, first):
        found.see({"g": lag}, number * PERIOD_MS // LOOKS)
    return found


def test_lag_that_grows_over_all_periods_is_told_when_the_last_has_ended() -> None:
    lags = [10 * number for number in range(SEEN * LOOKS)]
    assert watched(*lags).growing() == {}
    watch = watched(*lags, 1_000)
    assert watch.growing() == {"g": (0, 10 * LOOKS * PERIODS)}
    first = len(lags) + 1
    watched(*[0] * (LOOKS - 1), 0, watch=watch, first=first)
    assert watch.growing() == {}, "it has caught up"


def test_what_was_before_the_periods_does_not_count() -> None:
    still, growing = [7] * (3 * LOOKS), [10 * number for number in range(SEEN * LOOKS + 1)]
    watch = watched(*still, *growing)
    assert watch.growing() == {"g": (0, 10 * LOOKS * PERIODS)}


def test_commits_in_large_steps_and_bursts_are_no_growth() -> None:
    assert watched(*[0, 400, 800, 1_200] * SEEN, 0).growing() == {}
    assert watched(*[10] * (SEEN * LOOKS + 1)).growing() == {}


def test_a_period_in_which_nothing_is_known_begins_anew() -> None:
    growing = list(range(SEEN * LOOKS + 1))
    middle = LOOKS * 2
    unknown = [None if middle <= number < middle + LOOKS else number for number in growing]
    assert watched(*growing).growing()
    assert watched(*unknown).growing() == {}
    one = [None if number == middle else number for number in growing]
    assert watched(*one).growing(), "one look of several"


def test_a_look_that_came_too_late_begins_anew() -> None:
    watch = watched(*range(SEEN * LOOKS))
    watch.see({"g": 10_000}, (SEEN + 1) * PERIOD_MS)
    assert watch.growing() == {}


def test_a_group_without_members_is_forgotten() -> None:
    watch = watched(*range(SEEN * LOOKS + 1))
    watch.see({}, (SEEN + 1) * PERIOD_MS)
    assert watch.growing() == {}
