"""Starts Spark drivers, keeps a warm one in reserve, and kills them and what they started, one by one.

Everything a driver starts stays within reach: this process adopts orphans (PR_SET_CHILD_SUBREAPER), so that
it can end a worker whose driver, JVM and daemon are dead. Drivers stay in this process's session: the kernel
hangs up a *stopped* worker as soon as nobody of its session is above it (POSIX: orphaned process groups), and
a stopped worker that goes on later is just what is wanted. If this process dies, nobody is above them any
more: the driver is killed with it (launcher.py), its JVM ends with its input, stopped workers are hung up.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import psutil

import localcluster.launcher
from localcluster.java import find_java
from pipeline.jobs.session import worker_python
from tests.kit.pipeline.spark_jvm import SHORT_LIVED
from tests.pipeline_proof.faults.driver import MARK

ROOT = Path(__file__).resolve().parents[3]
READY_SECONDS_MAX = 600.0
END_SECONDS_MAX = 20.0
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """What our descendants leave behind becomes our child. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class DriverLost(RuntimeError):
    """It ended although nobody killed it, or never became ready."""


class Driver:
    """One driver process. `answer` is None while a query runs."""

    def __init__(self, master: str, log_path: Path) -> None:
        self.master = master
        self._log_path = log_path
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().executable.resolve().parents[1]),
            "PYSPARK_PYTHON": worker_python(),
            "PYSPARK_DRIVER_PYTHON": worker_python(),
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(log_path.parent / "spark-local"),
            "JAVA_TOOL_OPTIONS": SHORT_LIVED,
        }
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", localcluster.launcher.__file__, str(os.getpid())),
                    *(sys.executable, "-m", "tests.pipeline_proof.faults.driver", master),
                ],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._root = psutil.Process(self._process.pid)
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def _read(self, stdout: IO[str]) -> None:
        with contextlib.suppress(ValueError):  # closed under us
            for line in stdout:
                if line.startswith(MARK):
                    self._lines.put(json.loads(line[len(MARK) :]))
        self._lines.put(None)

    # Queries.

    def wait_ready(self) -> None:
        """Raises DriverLost."""
        try:
            first = self._lines.get(timeout=READY_SECONDS_MAX)
        except queue.Empty:
            first = None
        if first is None or not first.get("ready"):
            raise DriverLost(f"no session with {self.master}; see {self._log_path}")

    def submit(self, query: Mapping[str, Any]) -> None:
        """A driver that is dead already is noticed by `answer`."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(query) + "\n")
            self._process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """What came of the query, if it has ended. Raises DriverLost if the driver has."""
        try:
            found = self._lines.get_nowait()
        except queue.Empty:
            return None
        if found is None:
            raise DriverLost(f"the driver ended; see {self._log_path}")
        return found

    # Processes.

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def descendants(self) -> list[psutil.Process]:
        """All that it started, directly or not."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return list(self._root.children(recursive=True))
        return []

    def sender(self, source_port: int) -> psutil.Process | None:
        """The process of ours whose connection has this port at its end."""
        for process in self.descendants():
            if source_port in local_ports(process):
                return process
        return None

    def kill(self, *, spare: psutil.Process | None = None, only_jvm: bool = False) -> None:
        """SIGKILL to the driver and all it started, but not to `spare`. `only_jvm`: to the driver and its
        JVM; the others find out by themselves."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._root.suspend()  # at once, so that it gets no further while we look for the others
        jvms = [child for child in _children(self._root) if _is_java(child)]
        for jvm in jvms:
            with contextlib.suppress(psutil.NoSuchProcess):
                jvm.suspend()
        doomed = [self._root, *(jvms if only_jvm else self.descendants())]
        for process in doomed:
            if process != spare:
                kill(process)
        self._process.wait()
        reap([process for process in doomed if process not in (spare, self._root)])

    def close(self) -> None:
        """Ends it in whatever state it is."""
        if self.is_running:
            self.kill()


class Drivers:
    """Hands out drivers; the next one can warm up while one works."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reserve: Driver | None = None
        self._idle: Driver | None = None
        self._started: list[Driver] = []

    @property
    def started(self) -> int:
        return len(self._started)

    def prepare(self, master: str) -> None:
        """Begins to warm one up for the next `take`, if none is."""
        if self._reserve is not None and self._reserve.master != master:
            self._reserve.close()
            self._reserve = None
        if self._reserve is None:
            self._reserve = Driver(master, self._directory / f"driver-{len(self._started):03d}.log")
            self._started.append(self._reserve)

    def give_back(self, driver: Driver) -> None:
        """One that has come to the end of its queries alive."""
        self._idle = driver

    def take(self, master: str) -> Driver:
        """One whose session is made. Raises DriverLost."""
        idle, self._idle = self._idle, None
        if idle is not None:
            if idle.master == master and idle.is_running:
                return idle
            idle.close()
        self.prepare(master)
        taken, self._reserve = self._reserve, None
        assert taken is not None
        taken.wait_ready()
        return taken

    def close(self) -> None:
        for driver in self._started:
            driver.close()


def local_ports(process: psutil.Process) -> set[int]:
    """Of its TCP connections; none if it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return {connection.laddr.port for connection in process.net_connections("tcp4") if connection.raddr}
    return set()


def ancestor_jvm(process: psutil.Process) -> psutil.Process | None:
    """The JVM that a Python worker works for."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for parent in process.parents():
            if _is_java(parent):
                return parent
    return None


def kill(process: psutil.Process) -> None:
    """SIGKILL, if it is still the process that it was."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def resume(process: psutil.Process) -> None:
    """SIGCONT, if it is still the process that it was."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()


def reap(processes: list[psutil.Process]) -> None:
    """Waits for the end of processes that were killed."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            process.wait(timeout=END_SECONDS_MAX)


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(process.children())
    return []


def _is_java(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.name() == "java")
    return False
