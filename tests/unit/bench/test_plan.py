"""How long a run takes, and on which clusters its cases run."""

from __future__ import annotations

from bench.case import Setup
from bench.cases import CASES
from bench.plan import WARMUP_S_MIN, Plan, minutes

BY_NAME = {case.name: case for case in CASES}


def plan_of(*names: str, rounds: int = 3) -> Plan:
    return Plan(cases=[BY_NAME[name] for name in names], rounds=rounds, seconds=4.0, is_quick=False)


def test_idle_brokers_are_quiet_for_30_seconds_and_measured_for_20() -> None:
    idle = BY_NAME["idle-brokers"]
    assert (plan_of().warmup_s(idle), plan_of().measured_s(idle)) == (30.0, 20.0)


def test_a_short_run_is_warmed_up_all_the_same() -> None:
    plan = Plan(cases=[], rounds=1, seconds=0.1, is_quick=True)
    assert plan.warmup_s(BY_NAME["produce-all-100b-1x1"]) == WARMUP_S_MIN


def test_cases_of_one_setup_run_on_the_same_clusters() -> None:
    plan = Plan(cases=CASES, rounds=1, seconds=1.0, is_quick=False)
    setups = [setup for setup, _ in plan.by_setup()]
    assert setups == [Setup.PLAIN, Setup.TLS, Setup.ACLS, Setup.RACKS, Setup.WORKERS]
    assert [case for _, cases in plan.by_setup() for case in cases] == list(CASES)


def test_more_rounds_sides_and_cases_take_longer() -> None:
    small = plan_of("produce-all-66k-4x4", rounds=1)
    assert small.total_s(sides=1) < small.total_s(sides=2)
    assert small.total_s(sides=2) < plan_of("produce-all-66k-4x4").total_s(sides=2)
    more = plan_of("produce-all-66k-4x4", "produce-all-66k-4x4-tls", rounds=1)
    assert small.total_s(sides=2) < more.total_s(sides=2)


def test_a_pipe_takes_its_turn_in_each_round() -> None:
    piped, plain = BY_NAME["produce-all-66k-4x4"], BY_NAME["produce-all-66k-4x4-zstd"]
    plan = plan_of()
    assert plan.case_s(piped, sides=2) - plan.case_s(plain, sides=2) == 3 * (4.0 + 1.0 + 1.0)


def test_times_are_told_in_minutes_once_they_are_long() -> None:
    assert [minutes(seconds) for seconds in (89.4, 90.0, 3600.0)] == ["89 s", "2 min", "60 min"]
