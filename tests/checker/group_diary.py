"""The diary of one member: what its client was told and did, a line each, written before the next step.

A member that is killed leaves a diary that ends early, so what it says is true and may lack the last step.
Times are the machine's monotonic clock in nanoseconds, one for all processes, or the simulation's. Stock
clients do not tell a group's generation; UNTOLD stands for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

UNTOLD = -1


class Assigned(msgspec.Struct, frozen=True, tag=True):
    """The client told the member that it owns these partitions, beside those that it has."""

    at_ns: int
    partitions: tuple[int, ...]
    generation: int = UNTOLD


class Revoked(msgspec.Struct, frozen=True, tag=True):
    """The client told the member that it owns these partitions no more."""

    at_ns: int
    partitions: tuple[int, ...]


class Left(msgspec.Struct, frozen=True, tag=True):
    """The member is about to leave the group. Not every client says that it owns nothing from then on."""

    at_ns: int


class Began(msgspec.Struct, frozen=True, tag=True):
    """The member asked where to begin. offset: what was committed; -1: nothing."""

    asked_ns: int
    at_ns: int
    partition: int
    offset: int


class Read(msgspec.Struct, frozen=True, tag=True):
    """The client gave the member these records, without a gap. last: inclusive."""

    at_ns: int
    partition: int
    first: int
    last: int


class Committed(msgspec.Struct, frozen=True, tag=True):
    """A commit was answered with success."""

    asked_ns: int
    at_ns: int
    offsets: dict[int, int]
    generation: int = UNTOLD


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A commit was refused, or not answered."""

    at_ns: int
    why: str


Entry = Assigned | Revoked | Left | Began | Read | Committed | Refused
_DECODER = msgspec.json.Decoder(Entry)


class Diary:
    """Appends entries to a file, each at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, entry: Entry) -> None:
        with self._path.open("ab") as stream:
            stream.write(msgspec.json.encode(entry) + b"\n")

    def assigned(self, partitions: Sequence[int]) -> None:
        self.write(Assigned(time.monotonic_ns(), tuple(partitions)))

    def revoked(self, partitions: Sequence[int]) -> None:
        self.write(Revoked(time.monotonic_ns(), tuple(partitions)))

    def left(self) -> None:
        self.write(Left(time.monotonic_ns()))

    def began(self, asked_ns: int, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            self.write(Began(asked_ns, time.monotonic_ns(), partition, offset))

    def read(self, partition: int, first: int, last: int) -> None:
        self.write(Read(time.monotonic_ns(), partition, first, last))

    def committed(self, asked_ns: int, offsets: Mapping[int, int]) -> None:
        self.write(Committed(asked_ns, time.monotonic_ns(), dict(offsets)))

    def refused(self, why: str) -> None:
        self.write(Refused(time.monotonic_ns(), why))


def read_diary(path: Path) -> list[Entry]:
    """Return the entries of whole lines: a kill may have cut the last one."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_DECODER.decode(line) for line in lines]
