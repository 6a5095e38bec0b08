"""The goal of each row, and what is below it."""

from __future__ import annotations

from dataclasses import replace

from bench.figures import Ratios
from bench.goals import Goal, misses
from tests.kit.bench import FIGURES

LEVEL = Ratios(throughput=1.0, p50=1.0, p99=1.0, cpu=1.0, memory=0.5)


def test_each_figure_below_its_goal_is_named() -> None:
    goal = Goal(throughput=2.0, pipe_share=0.6, cpu_us_max=999.0, rss_mb_max=49.0)
    found = misses(goal, ratios=replace(LEVEL, p99=0.99), pipe_share=0.59, ours=FIGURES)
    assert found == {
        "throughput": "1.00x (goal 2x)",
        "p99": "0.99x (goal 1x)",
        "pipe": "59% (goal 60%)",
        "idle CPU": "1,000 us a second (goal 999)",
        "memory": "50 MB (goal 49)",
    }


def test_what_a_row_does_not_have_is_not_judged() -> None:
    without = Ratios(throughput=None, p50=None, p99=None, cpu=None, memory=None)
    goal = Goal(pipe_share=0.6)
    assert misses(goal, ratios=without, pipe_share=None, ours=FIGURES) == {}
    assert misses(goal, ratios=None, pipe_share=None, ours=FIGURES) == {}
