"""The process above a broker's workers: what it does when one of them dies, when it is told to stop, and what
becomes of the workers when it is killed. The workers here are small programs."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dataplane.supervisor import EXIT_DIRECTORY_REFUSED
from localcluster.ports import PortReservation
from springtide.node.command_line import EXIT_NOT_STARTED

SUPERVISOR = """
import sys, trio
from dataplane.supervisor import Supervisor
from springtide.log_lines import configure_logging
from springtide.service_manager import ServiceManager
configure_logging("info")
workers = [[sys.executable, "-c", sys.argv[1], code] for code in sys.argv[2:]]
sys.exit(trio.run(Supervisor(workers, ServiceManager()).run))
"""
WORKER = """
import os, signal, sys
from dataplane.supervisor import end_with_supervisor
end_with_supervisor()
code, *places = sys.argv[1].split(":")
for place in places:
    try:
        open(place, "x")
    except OSError:
        sys.exit(4)
on_stop = signal.SIG_IGN if code == "deaf" else lambda *_: os._exit(int(code))
signal.signal(signal.SIGTERM, on_stop)
sys.stderr.write(f"ready pid={os.getpid()}\\n")
while True:
    signal.pause()
"""
"""Its argument: the exit code after SIGTERM; and, behind a colon, a file without which alone it starts, and
which it makes."""


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


def test_a_start_that_is_refused_twice_ends_all_workers_with_its_error(tmp_path: Path) -> None:
    """With a port that is taken a worker was started again for ever, beside others that served. Workers run
    as their supervisor does: another `dataplane` in the working directory is none of it."""
    script, stranger = tmp_path / "bin" / "dataplane", tmp_path / "dataplane" / "__init__.py"
    for file, text in (
        (script, "import sys\nfrom dataplane.__main__ import main\nsys.exit(main())\n"),
        (stranger, "raise SystemExit('a stranger')\n"),
    ):
        file.parent.mkdir()
        file.write_text(text)
    with PortReservation() as ports:
        # That of the second worker stays free.
        port = ports.reserve_free(count=2)
        with socket.create_server(("127.0.0.1", port)):
            serve = ("serve", "--cluster", "prod", "--broker-id", "5", "--controllers", "http://127.0.0.1:1")
            where = ("--workers", "2", "--listen", f"127.0.0.1:{port}", "--data-dir", "data")
            ended = subprocess.run(
                [sys.executable, script, *serve, *where],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(Path.cwd())},
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
    assert ended.returncode == EXIT_NOT_STARTED, ended.stderr
    assert "worker_refused worker=0/2 exit_code=3" in ended.stderr
    told = [line for line in ended.stderr.splitlines() if "can_not_listen" in line]
    assert [f"worker=0/2 address=127.0.0.1:{port} " in line for line in told] == [True, True]
    assert "worker_stopped worker=1/2" in ended.stderr


def test_a_worker_whose_folder_is_refused_keeps_no_other_down(tmp_path: Path) -> None:
    """One broken disk of a host that was started again kept the data of all of them from clients."""
    place = tmp_path / "place"
    place.touch()
    with supervised("0", f"0:{place}") as running:
        for wait_ms in (1_000, 2_000):
            running.wait_for(f"worker_(ended) worker=1/2 exit_code=4 restart_in_ms={wait_ms}")
        running.process.send_signal(signal.SIGTERM)
        running.end()
        assert not [line for line in running.lines if "worker_refused" in line]
        assert sum("worker_started worker=0/2" in line for line in running.lines) == 1


def test_when_no_worker_can_use_its_folder_all_end(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.touch()
    with supervised(f"0:{place}", f"0:{place}") as running:
        assert running.end() == EXIT_DIRECTORY_REFUSED


def test_a_place_that_an_earlier_worker_is_about_to_leave_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.touch()
    with supervised(f"0:{place}") as running:
        running.wait_for(r"worker_ended worker=0/1 exit_code=(4)")
        place.unlink()
        running.pids(1)
        running.process.send_signal(signal.SIGTERM)
        assert running.end() == 0


def test_a_worker_that_ran_and_is_refused_when_it_is_started_again_ends_no_other(tmp_path: Path) -> None:
    with supervised(f"0:{tmp_path / 'place'}") as running:
        (first,) = running.pids(1)
        os.kill(first, signal.SIGKILL)
        for wait_ms in (1_000, 2_000, 4_000):
            running.wait_for(f"worker_(ended) worker=0/1 exit_code=-?[49] restart_in_ms={wait_ms}")
        running.process.send_signal(signal.SIGTERM)
        running.end()
        assert not [line for line in running.lines if "worker_refused" in line]
