"""The goal of each row, and what is below it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.cases import CASES
from bench.figures import Ratios
from bench.goals import Goal, goal_of, misses
from tests.kit.bench import FIGURES

BY_NAME = {case.name: case for case in CASES}
LEVEL = Ratios(throughput=1.0, p50=1.0, p99=1.0, cpu=1.0, memory=0.5)


@pytest.mark.parametrize(
    ("name", "throughput"),
    [
        ("produce-all-100b-1x1", 1.5),
        ("produce-all-100b-8x1", 1.5),
        ("produce-all-100b-1x16", 2.0),
        ("produce-all-66k-4x4-zstd", 2.0),
        ("client-produce-all-100b", 2.0),
        ("produce-1-66k-4x4", 1.0),
        ("fetch-backlog-4x1", 1.2),
        ("client-consume-1kb", 1.2),
        ("tail-100b-1x1", 1.0),
        ("produce-all-100b-1000-slow", 0.98),
        ("produce-all-66k-4x4-spread-workers", 1.0),
        ("catch-up", 1.0),
    ],
)
def test_the_goal_of_throughput_depends_on_what_decides_it(name: str, throughput: float) -> None:
    assert goal_of(BY_NAME[name]).throughput == throughput


def test_every_row_is_to_be_level_at_least_in_latency_and_processor_time() -> None:
    for case in CASES:
        goal = goal_of(case)
        assert (goal.p50, goal.cpu) == (1.0, 1.0)
        assert goal.p99 == (2.0 if case.name.startswith("tail-") else 1.0)


def test_rows_of_large_batches_have_a_share_of_the_pipe_and_idle_processes_have_limits() -> None:
    assert {case.name for case in CASES if goal_of(case).pipe_share} == {
        *("produce-all-66k-1x8", "produce-all-66k-4x4", "produce-all-66k-4x4-1kb", "produce-1-66k-4x4"),
        *("produce-all-1m-2x3", "produce-1-1m-2x3"),
    }
    assert {case.name for case in CASES if goal_of(case).rss_mb_max} == {"idle-brokers", "idle-controller"}
    assert {case.name for case in CASES if goal_of(case).cpu_us_max} == {"idle-brokers"}


def test_a_row_at_its_goal_misses_nothing() -> None:
    goal = Goal(pipe_share=0.6, cpu_us_max=1000.0, rss_mb_max=50.0)
    assert misses(goal, ratios=LEVEL, pipe_share=0.6, ours=FIGURES) == {}


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
