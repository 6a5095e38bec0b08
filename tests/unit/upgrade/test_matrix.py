"""The table of the walks, and what of it counts as held."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.upgrade.matrix import render, to_part
from tests.upgrade.paths import draw_walk
from tests.upgrade.walk import Course


def course(rolled: int, *, records: int = 1_000, seconds: float = 60.4) -> Course:
    made = Course(draw_walk(1, rolled), records=records, rolled=7 + 2 * rolled, level=1, seconds=seconds)
    made.faults = Counter({"broker killed": rolled})
    return made


def test_each_walk_has_a_row_and_the_last_row_adds_them_up() -> None:
    text = render([course(0), course(3)], subject="from one to the other")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert text.startswith("# Upgrade proof: from one to the other\n\nEverything held.\n")
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == [
        "3 of 7 there and back, all there, finalized (seed 1)",
        "13",
        "broker killed 3",
        "60",
        "1,000",
        "0",
        "0",
        "0",
        "0",
        "1",
    ]
    assert [cell.strip() for cell in lines[4].split("|")[1:6]] == ["all", "20", "3", "121", "2,000"]


@pytest.mark.parametrize("field", ["lost", "doubled"])
def test_a_record_that_is_lost_or_doubled_is_no_proof(field: str) -> None:
    wrong = course(2)
    setattr(wrong, field, 1)
    assert not wrong.is_ok
    assert "does not hold" in render([wrong], subject="x")
    assert not to_part([course(1), wrong], 1, 1.0).is_ok
    assert to_part([course(1)], 1, 1.0).is_ok


@pytest.mark.parametrize("field", ["failures", "unreadable"])
def test_what_went_wrong_is_told_above_the_table(field: str) -> None:
    wrong = course(2)
    getattr(wrong, field).append("broker 1: cluster_corrupt")
    assert "does not hold" in render([wrong], subject="x")
    assert "finalized (seed 1): broker 1: cluster_corrupt" in render([wrong], subject="x")
    part = to_part([wrong], 1, 1.0)
    assert not part.is_ok
    assert part.failures == [
        "2 of 7 there and back, all there, finalized (seed 1): broker 1: cluster_corrupt"
    ]


def test_a_walk_that_was_not_finalized_says_so() -> None:
    made = course(0)
    made.level = None
    assert "| all there (seed 1)" in render([made], subject="x")
