"""Brokers join and leave under load of stock clients, who notice nothing but what they retry by themselves.

`python -m tests.faults.elastic` is the same and prints it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from localcluster.__main__ import Narrator
from tests.faults.elastic.join_and_drain import JOINING, LAST, Pace, Report, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REPORTS = Path("build")
STALL_MS_MAX = 15_000
"""A generous bound for a busy machine; the report tells how far below it a run is."""
STALL_MS_MAX_KILLED = 60_000
"""Now and then no controller lives at all: the next one is killed while the first still starts, which takes a
busy machine as long as everything else together."""
PLANNED_TO_LEAST_MAX = 1.1
"""What is least is a bound, which a plan need not meet."""
KINDS = ["broker_add", "broker_drain"]
KILLS_MIN = 3
"""Steps that are over before somebody has looked can't have one."""
SLOW = Pace(throttle_bytes_per_s=300_000, max_concurrent_moves=6)
"""So that an operation outlives the controllers that it loses."""


def told(report: Report, name: str) -> str:
    text = "\n".join(report.lines())
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / name).write_text(f"{text}\n", encoding="utf-8")
    sys.stdout.write(f"{text}\n")
    return text


def judge(report: Report, text: str, *, stall_ms_max: int = STALL_MS_MAX) -> None:
    """Nothing lost, no client gave anything up, and no more was copied than had to be. A repetition is bad,
    too, unless the brokers' disks prove that the client made it: the checker tells."""
    assert report.trouble == [], text
    assert not report.is_bad, text
    figures = report.figures
    assert (figures.lost, figures.failed, figures.unknown) == (0, 0, 0), text
    assert figures.acked > 1_000, text
    assert figures.longest_stall_ms < stall_ms_max, text
    joining, leaving = report.chapters
    for chapter in report.chapters:
        assert chapter.unknown_sizes == 0, text
        assert chapter.bound <= chapter.planned <= chapter.bound_planned * PLANNED_TO_LEAST_MAX, text
        assert chapter.copies > 0, text
    assert {joining.before[broker].replicas for broker in (1, 2, 3)} == {60}, text
    assert {load.replicas for load in joining.after.values()} == {36}, text
    assert {load.leaders for load in joining.after.values()} == {12}, text
    assert set(leaving.after) == set(LAST) == {*JOINING, 2, 3}, text


@pytest.mark.proof  # as `make faults` has it; CI has it with the kills, which is all of it
def test_two_join_and_one_leaves_while_clients_write_and_read(tmp_path: Path) -> None:
    report, _ = run(tmp_path, Narrator(), pace=Pace())
    text = told(report, "elastic.txt")
    judge(report, text)
    assert report.figures.duplicated == 0, text


def test_killing_the_active_controller_at_each_step_costs_time_and_nothing_else(tmp_path: Path) -> None:
    report, _ = run(tmp_path, Narrator(), pace=SLOW, kills_in=KINDS)
    text = told(report, "elastic-killed.txt")
    judge(report, text, stall_ms_max=STALL_MS_MAX_KILLED)
    for kind in KINDS:
        kills = [name for name in report.kills if name.startswith(f"{kind}: ")]
        assert len(kills) >= KILLS_MIN, text
        assert f"{kind}: 50 % moved" in kills, text
