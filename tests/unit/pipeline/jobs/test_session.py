"""Which Python runs Spark's workers on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.jobs.session import worker_python


def test_workers_are_run_by_the_command_beside_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, command = tmp_path / "python3", tmp_path / "springtide-python"
    monkeypatch.setattr(sys, "executable", str(python))
    python.touch()
    command.touch(mode=0o644)
    (tmp_path / "python").symlink_to(python)
    assert worker_python() == str(python)
    command.chmod(0o755)
    assert worker_python() == str(command)


def test_the_command_is_left_if_it_would_run_another_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python3"
    python.touch()
    (tmp_path / "springtide-python").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert worker_python() == str(python)
    (tmp_path / "python").touch()
    assert worker_python() == str(python)
