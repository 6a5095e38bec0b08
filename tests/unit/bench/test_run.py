"""How long cases are measured, and on which clusters they run."""

from __future__ import annotations

from bench.case import Setup
from bench.cases import CASES
from bench.run import WARMUP_S_MIN, Plan

BY_NAME = {case.name: case for case in CASES}


def test_idle_brokers_are_quiet_for_30_seconds_and_a_short_run_is_warmed_up_all_the_same() -> None:
    plan = Plan(cases=[], rounds=1, seconds=4.0, is_quick=False)
    idle = BY_NAME["idle-brokers"]
    assert (plan.warmup_s(idle), plan.measured_s(idle)) == (30.0, 20.0)
    short = Plan(cases=[], rounds=1, seconds=0.1, is_quick=True)
    assert short.warmup_s(BY_NAME["produce-all-100b-1x1"]) == WARMUP_S_MIN


def test_cases_of_one_setup_run_on_the_same_clusters() -> None:
    plan = Plan(cases=CASES, rounds=1, seconds=1.0, is_quick=False)
    assert [setup for setup, _ in plan.by_setup()] == [Setup.PLAIN, Setup.TLS, Setup.ACLS, Setup.WORKERS]
    assert [case for _, cases in plan.by_setup() for case in cases] == list(CASES)
