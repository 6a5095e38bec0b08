"""A process of our own for work that would hold the loop: a line is asked, a line comes back.

The child can be killed at any time. It ends by itself when its standard input does, at the latest with the
line that it is at.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO


class ChildEnded(Exception):
    """The child ended, or could not be started."""


class ChildProcess:
    """module: what the child runs, as `python -m` does. All but `kill` are a thread's, one at a time."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def ask(self, line: bytes) -> bytes:
        """Return the line that answers this one. Start the child if there is none. Raise ChildEnded."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):  # nothing, or a part of it
            raise ChildEnded(f"ended with status {process.wait()}")
        return answer

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the child, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            # What a process that had ended was asked is written again as the pipes are closed.
            with suppress(BrokenPipeError), process:  # closes the pipes, and waits
                process.kill()

    def _started(self) -> subprocess.Popen[bytes]:
        # -P: the working directory must not say what is imported.
        command = (sys.executable, "-P", "-m", self._module)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        except OSError as error:  # no memory, too many processes
            raise ChildEnded(f"can't be started: {error}") from error


def run_child(nice: int, serve: Callable[[BinaryIO, BinaryIO], None]) -> None:
    """Be the child: serve what is asked until its end. Signals are for the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(nice)
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # not by way of a flush of the closed output, which would complain
