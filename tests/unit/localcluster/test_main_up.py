"""What `localcluster` says of a process that a person ends, and of a client that is not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.__main__ import EXIT_FAILED, ending_of, run_demo_command
from localcluster.processes import ProcessFailed, SupervisedProcess


@pytest.mark.parametrize(
    ("source", "number", "how"),
    [
        ("import time; print('up', flush=True); time.sleep(600)", signal.SIGKILL, "was killed (SIGKILL)."),
        ("print('up', flush=True)", 0, "was stopped."),
        ("print('up', flush=True); raise SystemExit('no disk')", 0, "failed with 1."),
    ],
)
def test_it_says_how_the_process_ended_and_how_it_is_started_again(
    make_child: Callable[[str], SupervisedProcess], source: str, number: int, how: str
) -> None:
    child = make_child(source)
    child.start()
    if number:
        child.wait_ready(lambda: "up" in child.log_tail())
        assert child.pid is not None
        os.kill(child.pid, number)
    with pytest.raises(ProcessFailed):
        child.wait_ready(lambda: False)
    told = ending_of(child)
    assert told.startswith(f"child 7 {how}")
    assert ("no disk" in told) == ("no disk" in source)
    again = told.split("\n\n")[-1].strip()
    if not number:
        assert "up" in subprocess.run(again, shell=True, capture_output=True, text=True, check=False).stdout


def test_the_demo_says_what_to_install_where_its_kafka_client_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The controller needs none, so what is installed for it brings none."""
    for name in ("demo", "group", "load"):
        monkeypatch.delitem(sys.modules, f"localcluster.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert run_demo_command(tmp_path / "demo.json") == EXIT_FAILED
    assert "pip install 'springtide[pipeline,clients]'" in capsys.readouterr().err
