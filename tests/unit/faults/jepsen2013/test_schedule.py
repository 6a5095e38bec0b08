"""The schedule is the published one: who writes what where and when, and when the network is cut."""

from __future__ import annotations

import pytest

from tests.faults.jepsen2013.schedule import (
    Plan,
    choose_victim,
)


@pytest.mark.parametrize(
    ("rate", "seconds", "first_cut", "second_cut", "lag_ms"),
    [(2, 100, 10, 50, 10_000), (5, 40, 10, 20, 5_000), (10, 20, 5, 10, 2_500)],
)
def test_the_cuts_come_after_a_quarter_and_half_of_the_time(
    rate: float, seconds: float, first_cut: float, second_cut: float, lag_ms: int
) -> None:
    plan = Plan(rate=rate)
    assert (plan.seconds, plan.first_cut_seconds, plan.second_cut_seconds) == (seconds, first_cut, second_cut)
    assert plan.lag_ms_max == lag_ms


@pytest.mark.parametrize("rate", [0.5, 2, 5, 10])
def test_the_isr_can_shrink_and_a_request_run_out_between_the_cuts(rate: float) -> None:
    plan = Plan(rate=rate)
    between_ms = (plan.second_cut_seconds - plan.first_cut_seconds) * 1000
    assert plan.lag_ms_max * 1.5 < between_ms
    assert plan.request_timeout_ms <= between_ms


@pytest.mark.parametrize("rate", [0, -1, 10.5])
def test_a_rate_at_which_the_schedule_makes_no_sense_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        Plan(rate=rate)


def test_the_victim_leads_most_and_of_several_is_the_first() -> None:
    assert choose_victim({0: 3, 1: 1, 2: 3, 3: None, 4: 2}) == 3
    assert choose_victim({0: 5, 1: 2, 2: None}) == 2
    with pytest.raises(ValueError, match="leader"):
        choose_victim({0: None})
