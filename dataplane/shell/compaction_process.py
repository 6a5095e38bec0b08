"""The process in which a broker writes what a pass of compaction leaves: a child with a lower priority.

A thread would take the interpreter from the loop as often as the loop waits for anything, and a pass over a
gigabyte works for ten seconds. What crosses is values: the files and the round there, a line for each slice
back (rewritten_files.py), and the broker asks for the next slice only after it has looked whether the log is
still the same. The broker alone commits. So the child can be killed at any time; it ends by itself when its
standard input does, at the latest with the slice that it is at, and what it leaves is removed by the next
start. It is there while rounds are applied, so that its memory is given back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import BinaryIO

import msgspec

from dataplane.storage.compaction import PassPutOff
from dataplane.storage.disk import Disk, PosixDisk
from dataplane.storage.health import CorruptLog
from dataplane.storage.rewritten_files import FilesToRewrite, RewrittenFiles, rewrite_files

NICE = 1
"""Where both want all of a processor, the loop has a little more than half of it: passes must keep up with
what is written, too."""


class BytesCorrupt(msgspec.Struct, frozen=True, tag=True):
    """See CorruptLog."""

    detail: str
    base_offset: int
    position: int


class DiskFailed(msgspec.Struct, frozen=True, tag=True):
    """An OSError."""

    number: int
    detail: str
    path: str


Answer = RewrittenFiles | BytesCorrupt | DiskFailed | None
"""None: a slice is written, and there is more to do."""
_DECODER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


class CompactionProcess:
    """The broker's side. One pass at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def rewrite(self, _disk: Disk, files: FilesToRewrite) -> Generator[RewrittenFiles | None, None, None]:
        """See `rewrite_files`. Thread. Raise PassPutOff, too: the process ended, or could not be started."""
        line, is_over = msgspec.json.encode(files), False
        try:
            process = self._process = self._process or _started()
            while not is_over:
                answer = _asked(process, line)
                line, is_over = b"", answer is not None
                match answer:
                    case BytesCorrupt(detail, base_offset, position):
                        raise CorruptLog(detail, base_offset=base_offset, position=position)
                    case DiskFailed(number, detail, path):
                        raise OSError(number, detail, path)
                    case _:
                        yield answer
        finally:
            if not is_over:
                self.close()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process. Thread."""
        process, self._process = self._process, None
        if process is not None:
            # What a process that had ended was asked is written again as the pipes are closed.
            with suppress(BrokenPipeError), process:  # closes the pipes, and waits
                process.kill()


def _started() -> subprocess.Popen[bytes]:
    # -P: the working directory must not say what is imported.
    command = (sys.executable, "-P", "-m", __name__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    except OSError as error:  # no memory, too many processes
        raise PassPutOff(f"no process for compaction can be started: {error}") from error


def _asked(process: subprocess.Popen[bytes], line: bytes) -> Answer:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    except BrokenPipeError:
        answer = b""
    if not answer.endswith(b"\n"):  # nothing, or a part of it
        raise PassPutOff(f"the process for compaction ended with status {process.wait()}")
    return _DECODER.decode(answer)


# The process


def main() -> None:
    """Answer until the broker ends, which is the one that signals are for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICE)
    with suppress(BrokenPipeError):
        _serve(PosixDisk(), sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # not by way of a flush of the closed output, which would complain


def _serve(disk: Disk, asked: BinaryIO, told: BinaryIO) -> None:
    while line := asked.readline():
        for answer in _answers(disk, msgspec.json.decode(line, type=FilesToRewrite)):
            told.write(msgspec.json.encode(answer) + b"\n")
            told.flush()
            if answer is None and not asked.readline():
                return


def _answers(disk: Disk, files: FilesToRewrite) -> Iterator[Answer]:
    try:
        yield from rewrite_files(disk, files)
    except CorruptLog as error:
        yield BytesCorrupt(str(error), error.base_offset, error.position)
    except OSError as error:
        yield DiskFailed(error.errno or 0, error.strerror or str(error), str(error.filename or ""))


if __name__ == "__main__":
    main()
