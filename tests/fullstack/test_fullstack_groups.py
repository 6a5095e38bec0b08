"""Groups of the full stack: that they are struck, that they work, and that they would notice."""

from __future__ import annotations

from collections import Counter

from tests.fullstack.figures import COORDINATED_MIN, part_of
from tests.fullstack.groups import MOMENTS
from tests.fullstack.options import Options
from tests.fullstack.run import Result, run_seed
from tests.simulation.planted import coordinators, planted

SEED = 23
TOO_EARLY = 24


def test_groups_keep_what_they_committed_whatever_strikes() -> None:
    result = run_seed(SEED)
    assert result.options.coordinators
    assert not result.failures, result.report()
    assert result.moments["commit answered"] > 0
    assert {kind for kind in result.faults if "coordinator" in kind}


def test_a_coordinator_that_answers_too_early_is_found() -> None:
    options = Options(coordinators=2, churn=True)
    with planted(coordinators.answered_before_the_commit):
        result = run_seed(TOO_EARLY, options=options)
    assert any("is lost" in failure or "group" in failure for failure in result.failures), result.report()


def test_a_sweep_that_never_came_to_a_moment_of_groups_fails() -> None:
    def results(moments: Counter[str]) -> list[Result]:
        options = Options(coordinators=2)
        return [
            Result(seed=seed, options=options, moments=moments, recovery_ms=1)
            for seed in range(COORDINATED_MIN)
        ]

    held = part_of(results(Counter(MOMENTS)), seconds=1.0, compared=0, differing=[])
    assert held.is_ok
    assert held.figures["seeds with coordinators"] == COORDINATED_MIN
    failed = part_of(results(Counter(MOMENTS[1:])), seconds=1.0, compared=0, differing=[])
    assert failed.failures == [f"groups never came to: {MOMENTS[0]}"]
