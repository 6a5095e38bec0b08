"""Steps run one after another, those that mostly wait two at a time; each failure is told, and no output is
mixed with another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.plan import Step
from tests.proof.running import fits, run

MEET = """
import pathlib, sys, time
mine, other = map(pathlib.Path, sys.argv[1:])
mine.touch()
print("here")
while not other.exists():
    time.sleep(0.01)
print("met")
"""


def step(title: str, code: str, *words: str, waits: bool = False, minutes_max: float = 1.0) -> Step:
    return Step(title, ("-c", code, *words), (), minutes_max, waits)


def test_what_waits_runs_beside_one_other_that_waits_and_all_else_alone() -> None:
    busy, waiting = step("a", "", waits=False), step("b", "", waits=True)
    assert fits(busy, []) and fits(waiting, [])
    assert fits(waiting, [waiting])
    assert not fits(waiting, [waiting, waiting])
    assert not fits(busy, [waiting])
    assert not fits(waiting, [busy])


def test_two_that_wait_run_at_one_time_and_their_output_is_shown_whole(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    steps = [step("one", MEET, one, other, waits=True), step("other", MEET, other, one, waits=True)]
    assert run(steps) == []
    told = capfd.readouterr().out
    assert told.count("here\nmet\n") == 2
    assert "printed by: one\n" in told and "printed by: other\n" in told


def test_a_failure_and_a_step_that_hangs_are_told_and_the_next_one_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    wrong = run(
        [
            step("fails", "raise SystemExit(3)", waits=True),
            step("hangs", "import time; time.sleep(300)", minutes_max=0.01),
            step("holds", "print('the last')"),
        ]
    )
    assert [line.partition(" (python ")[0] for line in wrong] == [
        "fails: ended with exit code 3",
        "hangs: was not done after 0.01 minutes",
    ]
    assert "the last" in capfd.readouterr().out
