"""Every scenario reaches its moment and holds every invariant, whatever the delays; and none is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.simulation.scenarios.all import SCENARIOS
from tests.simulation.scenarios.registry import Scenario, play, scenario
from tests.simulation.scenarios.script import Script
from tests.simulation.scenarios.table import WHERE

ROOT = Path(__file__).parents[3]
SEEDS = range(3)


@pytest.mark.parametrize("played", SCENARIOS, ids=lambda each: f"{each.number}-{each.name}")
def test_a_scenario_reaches_its_moment_and_holds_every_invariant(played: Scenario) -> None:
    for seed in SEEDS:
        result = play(played, seed)
        assert result.failure is None, result.report()
        assert result.moments


def test_the_same_scenario_and_seed_is_the_same_run() -> None:
    one, other = (play(SCENARIOS[0], 7) for _ in range(2))
    assert one == other
    assert one.last_events != play(SCENARIOS[0], 8).last_events


def test_a_scenario_whose_moment_does_not_come_fails() -> None:
    def never(s: Script) -> None:
        s.until("the impossible", lambda: False, within_ms=50)

    def without_moment(s: Script) -> None:
        s.run_for(1)

    for body in (never, without_moment):
        result = play(Scenario("S0", body.__name__, body, {}), 0)
        assert result.failure is not None
        assert result.failure.startswith("not reached: ")


def test_what_the_scripts_break_on_purpose_is_seen() -> None:
    """Held for ever, a follower's fetches keep it out of sync: healing is what `finish` must not forget."""

    def stuck(s: Script) -> None:
        s.hold_fetches(s.c, s.a).choose = lambda message: message.target == s.a.name
        s._held.clear()
        s.reached("always", True)

    result = play(Scenario("S0", "stuck", stuck, {}), 0)
    assert result.failure is not None
    assert result.failure.startswith("L2: ")


def test_every_scenario_of_the_rule_book_is_somewhere() -> None:
    assert {f"S{n}" for n in range(1, 41)} <= set(WHERE)  # the numbers after these have gaps
    assert {number for number, where in WHERE.items() if where == "sim"} == {s.number for s in SCENARIOS}
    for where in WHERE.values():
        if "::" in where:
            path, prefix = where.split("::")
            assert f"def {prefix}" in (ROOT / path).read_text(), where
    assert {where for where in WHERE.values() if "::" not in where} == {"sim"}


def test_the_rule_book_names_the_scenarios_that_are_played() -> None:
    page = (ROOT / "docs/replication/scenarios.md").read_text()
    rows = dict(re.findall(r"^\| <a id=\"s\d+\"></a>(S\d+) \|.*\| ([^|]*) \|$", page, re.M))
    assert set(WHERE) <= set(rows)
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for number, covered in rows.items():
        if number not in WHERE:  # then its row says which tests it has
            named = re.findall(r"`(test_\w+)", covered)
            assert named and all(f"def {name}" in tests for name in named), number
        played = re.search(r"played: ([^;]*)", covered)
        names = set() if played is None else set(re.findall(r"`(\w+)`", played[1]))
        assert names == {s.name for s in SCENARIOS if s.number == number}, number


def test_registering_twice_under_one_name_is_an_error() -> None:
    known = SCENARIOS[0]

    def body(s: Script) -> None: ...

    body.__name__ = known.name
    with pytest.raises(AssertionError):
        scenario(known.number)(body)
