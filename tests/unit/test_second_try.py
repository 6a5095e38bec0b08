"""A test with processes that fails is run once more, and what happened is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SOMETIMES = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(number):
    tried = Path(__file__).with_name(f"tried-{{number}}")
    was_tried = tried.exists()
    tried.touch()
    assert was_tried or number not in {failing}, f"first words of {{number}}"
    assert not {is_broken}, "for good"
"""


def run(folder: Path, workers: str = "0", **values: object) -> tuple[int, str]:
    (folder / "test_sometimes.py").write_text(SOMETIMES.format(**values), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.second_try",
        "-n",
        workers,
        f"--rootdir={folder}",
    ]
    ended = subprocess.run(
        [*command, "-c", os.devnull, "-p", "no:cacheprovider", str(folder)],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_who_passes_when_run_again_passes_and_is_told(tmp_path: Path) -> None:
    code, output = run(tmp_path, "1", count=4, failing=[1], is_broken=False)
    assert code == 0, output
    assert "passed only when run again" in output
    assert "first words of 1" in output
    summary = output.strip().splitlines()[-1]
    assert "3 passed, 1 passed only when run again" in summary
    assert "failed" not in summary


def test_who_fails_twice_fails(tmp_path: Path) -> None:
    code, output = run(tmp_path, count=2, failing=[1], is_broken="number == 1")
    assert (code, "1 failed, 1 passed" in output.strip().splitlines()[-1]) == (1, True), output
    assert "failed again, alone" in output
    assert "for good" in output


def test_many_failures_are_no_accident(tmp_path: Path) -> None:
    code, output = run(tmp_path, count=7, failing=[*range(6)], is_broken=False)
    assert (code, "6 failed, 1 passed" in output.strip().splitlines()[-1]) == (1, True), output
    assert "once more" not in output
