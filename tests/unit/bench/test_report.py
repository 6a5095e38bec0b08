"""The table and the bars."""

from __future__ import annotations

from dataclasses import replace

from bench.case import Case
from bench.figures import Ratios
from bench.report import (
    below_goal,
    beside_table,
    verdict,
)
from bench.run import Row, is_steady
from tests.kit.bench import FIGURES

CASE = Case(name="produce-all-100b-1x1", record_bytes=100, batch_records=1)


def row(ratios: Ratios | None, *sides: str) -> Row:
    return Row(
        case=CASE,
        rounds={side: [FIGURES] for side in sides},
        medians=dict.fromkeys(sides, FIGURES),
        ratios=ratios,
    )


AHEAD = Ratios(throughput=4.0, p50=2.0, p99=1.5, cpu=3.0, memory=None)
BEHIND = Ratios(throughput=0.25, p50=2.0, p99=0.5, cpu=3.0, memory=5.0)


def test_the_verdict_names_what_was_lost_and_nothing_else() -> None:
    rows = [row(AHEAD, "springtide", "kafka"), row(BEHIND, "springtide", "kafka")]
    assert verdict(rows, ours="Springtide", theirs="Kafka") == [
        "Where Kafka is ahead of Springtide:",
        "  produce-all-100b-1x1: throughput 0.25x, p99 0.50x",
    ]
    assert verdict(rows[:1], ours="A", theirs="B") == ["A is ahead of B in every figure of every row."]


def test_a_row_below_its_goal_is_told_with_the_goal() -> None:
    rows = [row(AHEAD, "springtide", "kafka"), row(BEHIND, "springtide", "kafka")]
    assert below_goal(rows[:1]) == []
    assert below_goal(rows) == [f"  {CASE.name}: throughput 0.25x (goal 1.5x), p99 0.50x (goal 1x)"]


def test_a_row_beside_another_is_compared_with_it_on_its_own_side() -> None:
    slower = replace(FIGURES, records_per_s=FIGURES.records_per_s / 4, broker_cpu_s_per_million=2000.0)
    variant = Row(
        case=replace(CASE, name="variant", beside=CASE.name),
        rounds={},
        medians={"springtide": slower, "kafka": FIGURES},
        ratios=None,
    )
    _, ours, theirs = beside_table([row(AHEAD, "springtide", "kafka"), variant])
    assert ours.split()[2:] == [CASE.name, "springtide", "0.25x", "1.00x", "1.00x", "0.50x", "1.00x"]
    assert theirs.split()[2:] == [CASE.name, "kafka", *["1.00x"] * 5]
    assert beside_table([variant]) == []


def test_warming_up_ends_when_two_runs_in_a_row_were_no_gain() -> None:
    assert not is_steady([100.0, 100.0])
    assert is_steady([100.0, 104.0, 99.0])
    assert not is_steady([100.0, 104.0, 130.0])
    assert is_steady([100.0, 130.0, 131.0, 90.0])
