"""Which Python runs Spark's workers on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.jobs.session import worker_python


def test_workers_are_run_by_the_command_beside_this_python_unless_spark_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, command = tmp_path / "python3", tmp_path / "springtide-python"
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert worker_python() == str(python)
    command.touch(mode=0o644)
    assert worker_python() == str(python)
    command.chmod(0o755)
    assert worker_python() == str(command)
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert worker_python() == str(python)
