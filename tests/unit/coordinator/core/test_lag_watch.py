"""A group falls behind when the least that it has yet to read grows from each period to the next."""

from __future__ import annotations

from coordinator.core.lag_watch import GrowthRule, LagWatch, TotalLag

RULE = GrowthRule(looks=4, periods=5, share=0.5)
SEEN = RULE.looks * (RULE.periods + 1)
"""Looks in the periods, with the one before it grew."""
PRODUCED = 20
"""Between two looks."""


def watched(*lags: int | None, watch: LagWatch | None = None) -> LagWatch:
    """A group's lag at each look."""
    found = LagWatch(RULE) if watch is None else watch
    for number, lag in enumerate(lags):
        found.see({"g": None if lag is None else TotalLag(lag, number * PRODUCED)})
    return found


def test_lag_that_grows_over_all_periods_is_told_when_the_last_has_ended() -> None:
    lags = [11 * number for number in range(SEEN)]
    assert watched(*lags[:-1]).growing() == {}
    watch = watched(*lags)
    assert watch.growing() == {"g": (0, 11 * RULE.looks * RULE.periods)}
    assert watch.has_grown("g")
    watched(*[0] * RULE.looks, watch=watch)
    assert watch.growing() == {}, "it has caught up"
    assert not watch.has_grown("g")


def test_what_was_before_the_periods_does_not_count() -> None:
    still, growing = [7] * (3 * RULE.looks), [11 * number for number in range(SEEN)]
    assert watched(*still, *growing).growing() == {"g": (0, 11 * RULE.looks * RULE.periods)}


def test_commits_in_large_steps_and_bursts_are_no_growth() -> None:
    assert watched(*[0, 400, 800, 1_200] * (RULE.periods + 1)).growing() == {}
    assert watched(*[10] * SEEN).growing() == {}


def test_lag_that_grows_by_less_than_the_share_of_what_is_produced_wavers() -> None:
    watch = watched(*[9 * number for number in range(SEEN)])
    assert watch.growing() == {}
    assert watch.has_grown("g")


def test_a_period_in_which_nothing_is_known_begins_anew() -> None:
    growing = [11 * number for number in range(SEEN)]
    middle = RULE.looks * 2
    unknown = [None if middle <= number < middle + RULE.looks else lag for number, lag in enumerate(growing)]
    assert watched(*growing).growing()
    assert watched(*unknown).growing() == {}
    one = [None if number == middle else lag for number, lag in enumerate(growing)]
    assert watched(*one).growing(), "one look of several"


def test_a_group_without_members_is_forgotten() -> None:
    watch = watched(*[11 * number for number in range(SEEN)])
    for _ in range(RULE.looks):
        watch.see({})
    assert watch.growing() == {}
