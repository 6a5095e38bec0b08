"""The process above a broker's workers: what it does when one of them dies, when it is told to stop, and what
becomes of the workers when it is killed. The workers here are small programs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SUPERVISOR = """
import sys, trio
from dataplane.supervisor import Supervisor
from springtide.log_lines import configure_logging
configure_logging("info")
workers = [[sys.executable, "-c", sys.argv[1], code] for code in sys.argv[2:]]
sys.exit(trio.run(Supervisor(workers).run))
"""
WORKER = """
import os, signal, sys
from dataplane.supervisor import end_with_supervisor
end_with_supervisor()
on_stop = signal.SIG_IGN if sys.argv[1] == "deaf" else lambda *_: os._exit(int(sys.argv[1]))
signal.signal(signal.SIGTERM, on_stop)
sys.stderr.write(f"ready pid={os.getpid()}\\n")
while True:
    signal.pause()
"""
"""Its argument: the exit code after SIGTERM."""


class Supervised:
    """A supervisor whose log, and its workers', is read line by line. That the log ends says that all of
    them have ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def wait_for(self, pattern: str) -> str:
        """Return the first group of the next line that has the pattern."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError("".join(self.lines))

    def pids(self, count: int) -> list[int]:
        """Return those of the next workers that are ready."""
        return [int(self.wait_for(r"^ready pid=(\d+)")) for _ in range(count)]

    def end(self) -> int:
        """Wait until supervisor and workers have ended; return the supervisor's exit code."""
        assert self.process.stderr is not None
        self.lines += self.process.stderr
        return self.process.wait()


@contextmanager
def supervised(*workers: str) -> Iterator[Supervised]:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, WORKER, *workers], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Supervised(process)
        finally:
            process.kill()


def test_a_worker_that_dies_is_started_again_and_the_others_go_on() -> None:
    with supervised("0", "0") as running:
        first, second = running.pids(2)
        os.kill(first, signal.SIGKILL)
        dead = running.wait_for(r"worker_ended worker=(\d)/2 exit_code=-9 restart_in_ms=1000")
        assert running.wait_for(r"worker_started worker=(\d)/2") == dead
        (again,) = running.pids(1)
        assert again not in (first, second)
        running.process.send_signal(signal.SIGTERM)
        assert running.end() == 0
        assert sum("worker_started" in line for line in running.lines) == 3


def test_all_workers_are_told_to_stop_and_the_worst_exit_code_is_the_supervisors() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with supervised("0", "3", "1") as running:
            running.pids(3)
            running.process.send_signal(number)
            assert running.end() == 3


def test_a_second_signal_ends_all_at_once() -> None:
    with supervised("0", "deaf") as running:
        running.pids(2)
        running.process.send_signal(signal.SIGTERM)
        running.wait_for(r"worker_(stopped) worker=0/2 exit_code=0")
        running.process.send_signal(signal.SIGTERM)
        assert running.end() == 128 + signal.SIGTERM


def test_no_worker_outlives_a_supervisor_that_is_killed() -> None:
    with supervised("deaf", "0") as running:
        running.pids(2)
        running.process.kill()
        assert running.end() == -signal.SIGKILL
