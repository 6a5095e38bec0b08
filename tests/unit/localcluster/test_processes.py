"""Supervised children: they start, say why they died, die when told to, and never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.processes import ProcessFailed, SupervisedProcess

PATIENCE_SECONDS = 20.0


def eventually(condition: Callable[[], bool]) -> bool:
    """Polls until true: what other processes do has no event that we could await."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def state_of(pid: int) -> str:
    """The state letter of /proc/PID/stat, or `gone`."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return stat.rpartition(")")[2].split()[0]


SLEEPER = "import time; print('up', flush=True); time.sleep(600)"


def start_sleeper(make_child: Callable[[str], SupervisedProcess], source: str = SLEEPER) -> SupervisedProcess:
    child = make_child(source)
    child.start()
    child.wait_ready(lambda: "up" in child.log_tail())
    return child


def test_a_child_that_dies_before_it_is_ready_is_reported_with_its_last_words(
    make_child: Callable[[str], SupervisedProcess],
) -> None:
    child = make_child("raise SystemExit('cannot read the config')")
    child.start()
    with pytest.raises(
        ProcessFailed, match=r"child 7 ended with 1 before it was ready(.|\n)*cannot read the config"
    ):
        child.wait_ready(lambda: False)
    assert child.has_failed
    assert child.exit_code == 1


def test_stop_kills_a_child_that_ignores_sigterm(make_child: Callable[[str], SupervisedProcess]) -> None:
    child = start_sleeper(
        make_child,
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("up", flush=True)
        time.sleep(600)
        """,
    )
    assert child.stop(timeout_seconds=0.1) is False
    assert child.exit_code == -signal.SIGKILL


def test_a_child_is_ended_with_what_it_started_itself(make_child: Callable[[str], SupervisedProcess]) -> None:
    child = start_sleeper(
        make_child,
        """
        import subprocess, sys, time
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("up", grandchild.pid, flush=True)
        time.sleep(600)
        """,
    )
    grandchild = int(child.log_tail().split()[1])
    child.kill()
    assert eventually(lambda: state_of(grandchild) in ("gone", "Z"))


def test_a_child_lives_on_when_the_thread_that_asked_for_it_ends(
    make_child: Callable[[str], SupervisedProcess],
) -> None:
    child = make_child(SLEEPER)
    asker = threading.Thread(target=child.start)
    asker.start()
    asker.join()
    child.wait_ready(lambda: "up" in child.log_tail())
    assert child.is_running


def test_children_die_with_a_parent_that_is_sigkilled(tmp_path: Path) -> None:
    source = f"""
        import sys, time
        from pathlib import Path
        from localcluster.processes import ProcessCommand, SupervisedProcess
        command = ProcessCommand([sys.executable, "-c", {SLEEPER!r}], Path({str(tmp_path)!r}))
        child = SupervisedProcess("child", command, Path({str(tmp_path / "child.log")!r}))
        child.start()
        child.wait_ready(lambda: "up" in child.log_tail())
        print(child.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        assert state_of(child_pid) == "S"
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    assert eventually(lambda: state_of(child_pid) in ("gone", "Z"))
