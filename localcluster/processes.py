"""One supervised child process: start, wait until ready, stop, kill, pause, resume, start again.

Invariants:

- only processes that this module started are ever signalled, through the handle that started them and only
  while that handle says they have not been reaped (a pid is never read from a file or looked up by name);
- a child never outlives this process, however this process ends (see launcher.py);
- a child's output goes to one log file that survives its restarts, and an error about a child ends with the
  last lines of that file, because they are what the reader needs next.

Every child has a session of its own: Ctrl-C at the terminal reaches this process alone, which then stops the
children in the right order.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO

from localcluster.ports import LOOPBACK

READY_POLL_SECONDS = 0.02
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
KILL_SECONDS_MAX = 20.0
"""The kernel ends a SIGKILLed process at once, unless it waits for a disk; then the operator should know."""

LOG_TAIL_LINES = 20
LOG_TAIL_BYTES_MAX = 64 * 1024

_LAUNCHER = Path(__file__).with_name("launcher.py")


def exit_on_sigterm() -> None:
    """Let SIGTERM raise SystemExit in this process, so that `with` blocks stop what they started."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


class ProcessFailed(RuntimeError):
    """A child did not start, did not become ready, or ended when it should not have. The message has its
    last words."""


@cache
def _spawner() -> ThreadPoolExecutor:
    """The one thread that forks: the kernel kills a child when the thread that started it ends, see
    launcher.py."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="localcluster-spawner")


@dataclass(frozen=True, slots=True)
class ProcessCommand:
    """The command that starts a child; the same each time it starts."""

    arguments: Sequence[str]
    working_directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to this process's own environment."""


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """One host, as its processes and their peers see it.

    address: what the process listens on, and others reach it at.
    prefix: put before the process's command: a program that moves into the host and then becomes the rest.
    environment: added to the process's.
    python: the interpreter whose packages it runs; another release's has an environment of its own.
    """

    address: str = LOOPBACK
    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def run(self, command: ProcessCommand) -> ProcessCommand:
        """The command, to be run here."""
        return ProcessCommand(
            arguments=[*self.prefix, *command.arguments],
            working_directory=command.working_directory,
            environment={**command.environment, **self.environment},
        )


PlaceOf = Callable[[str], ProcessPlace]
"""Where a process runs, by its host's name: `broker-1`, `coordinator-1001`, `controller-1`, `zookeeper-1`."""


def this_machine(host: str) -> ProcessPlace:
    """Everything on loopback."""
    return ProcessPlace()


class SupervisedProcess:
    """A named child with a log file. It can be started again after it ended.

    Args:
        name: what messages call it, e.g. `broker 2`.
        command: what to run.
        log_path: where its stdout and stderr are appended.
    """

    def __init__(self, name: str, command: ProcessCommand, log_path: Path) -> None:
        self.name = name
        self.command = command
        self.log_path = log_path
        self._child: subprocess.Popen[bytes] | None = None
        self._is_paused = False
        self._is_meant_to_run = False

    @property
    def pid(self) -> int | None:
        """The pid while it runs (paused counts as running), else None."""
        return self._child.pid if self._child is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def has_failed(self) -> bool:
        """Return whether it was started and has ended since without being stopped or killed."""
        return self._is_meant_to_run and not self.is_running

    @property
    def exit_code(self) -> int | None:
        """Return how the last run ended: the exit status, or minus the signal's number; None while it runs or
        before it ran."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Start it and return at once; nothing is known yet about whether it works."""
        if self.is_running:
            raise ProcessFailed(f"{self.name} is already running as pid {self.pid}")
        self.command.working_directory.mkdir(parents=True, exist_ok=True)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._child = _spawner().submit(self._fork, log).result()
        self._is_paused = False
        self._is_meant_to_run = True

    def _fork(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *self.command.arguments],
            cwd=self.command.working_directory,
            env={**os.environ, **self.command.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_ready(self, is_ready: Callable[[], bool], *, timeout_seconds: float = READY_SECONDS_MAX) -> None:
        """Poll `is_ready` until it says yes.

        Raises:
            ProcessFailed: the process ended, or the time is over.
        """
        deadline = time.monotonic() + timeout_seconds
        while not is_ready():
            if not self.is_running:
                raise ProcessFailed(
                    f"{self.name} ended with {self.exit_code} before it was ready.{self.last_words()}"
                )
            if time.monotonic() > deadline:
                raise ProcessFailed(
                    f"{self.name} was not ready after {timeout_seconds:g} s.{self.last_words()}"
                )
            time.sleep(READY_POLL_SECONDS)

    def begin_stop(self) -> None:
        """SIGTERM without waiting, once, so that several processes can stop side by side; `stop` waits."""
        if self._is_meant_to_run:
            self._is_meant_to_run = False
            self.resume()
            self._signal(signal.SIGTERM)

    def stop(self, *, timeout_seconds: float = STOP_SECONDS_MAX) -> bool:
        """Send SIGTERM, then SIGKILL when it has not ended in time. Return whether it ended by itself.

        A paused process cannot handle SIGTERM and is resumed first.
        """
        self.begin_stop()
        if self._child is None:
            return True
        try:
            self._child.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, and waits until it is gone. A process that is not running stays so."""
        self._is_meant_to_run = False
        if self._child is None or not self.is_running:
            return
        self._signal(signal.SIGKILL)
        self._is_paused = False
        self._child.wait(timeout=KILL_SECONDS_MAX)

    def pause(self) -> None:
        """SIGSTOP: the process keeps its connections and does nothing, like a long garbage collection."""
        if not self.is_running:
            raise ProcessFailed(f"{self.name} is not running; it cannot be paused")
        self._signal(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT; harmless when it was not paused."""
        if self._is_paused:
            self._signal(signal.SIGCONT)
            self._is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        """Signal the child's whole process group, which it leads; nothing when it has ended already."""
        if self._child is None or not self.is_running:
            return
        # Between poll() and here it may have ended, but it is a zombie until we reap it: its pid is still
        # its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    def log_tail(self) -> str:
        """The last lines it wrote; empty when it wrote none."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES_MAX))
                written = log.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(written.splitlines()[-LOG_TAIL_LINES:])

    def how_to_start(self) -> str:
        """Return what a shell runs to start it by hand."""
        settings = [f"{name}={value}" for name, value in self.command.environment.items()]
        command = [*(["env", *settings] if settings else []), *self.command.arguments]
        return f"cd {shlex.quote(str(self.command.working_directory))} && {shlex.join(command)}"

    def last_words(self) -> str:
        tail = self.log_tail()
        return f" {self.log_path} ends with:\n{tail}" if tail else f" {self.log_path} is empty."
