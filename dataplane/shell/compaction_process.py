"""The process in which a broker writes what a pass of compaction leaves: a child with a lower priority.

A thread would take the interpreter from the loop as often as the loop waits for anything, and a pass over a
gigabyte works for ten seconds. What crosses is values: the files and the round there, a line for each slice
back (rewritten_files.py), and the broker asks for the next slice only after it has looked whether the log is
still the same. The broker alone commits. So the child can be killed at any time; it ends by itself when its
standard input does, at the latest with the slice that it is at, and what it leaves is removed by the next
start. It is there while rounds are applied, so that its memory is given back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import BinaryIO

import msgspec

from dataplane.storage.compaction import PassPutOff
from dataplane.storage.disk import Disk, PosixDisk
from dataplane.storage.health import CorruptLog
from dataplane.storage.rewritten_files import FilesToRewrite, RewrittenFiles, rewrite_files
from springtide.node.child_process import ChildEnded, ChildProcess, run_child

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
        self._child = ChildProcess(__name__)
        self.kill = self._child.kill
        self.close = self._child.close

    def rewrite(self, _disk: Disk, files: FilesToRewrite) -> Generator[RewrittenFiles | None, None, None]:
        """See `rewrite_files`. Thread. Raise PassPutOff, too: the process ended, or could not be started."""
        line, is_over = msgspec.json.encode(files), False
        try:
            while not is_over:
                try:
                    answer = _DECODER.decode(self._child.ask(line))
                except ChildEnded as error:
                    raise PassPutOff(f"the process for compaction {error}") from error
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
        return self._child.is_running


# The process


def main() -> None:
    run_child(NICE, lambda asked, told: _serve(PosixDisk(), asked, told))


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
