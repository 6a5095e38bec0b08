"""The aborted transactions whose markers lie in one segment: its file beside the sparse index.

    <base>.txnindex    entries of 34 bytes as Kafka's, in the order of the markers, then a CRC32C of them
    <base>.aborted     empty: there is such a file, or it was lost

The active segment's entries live in memory and are written when the segment is closed, as its sparse index
is: after an unclean stop the batches tell them again. A segment without any has no file. Unlike the sparse
index it is believed: nothing in the log says that a record is aborted, but a marker that lies further on. So
a file whose CRC does not match, or that is lost, is not used, and the log builds it again from the batches.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing

from crc32c import crc32c

from dataplane.core.transactions import ENTRY_BYTES, AbortedEntry, decode_entries, encode_entry
from dataplane.storage.disk import Disk, fsync_file, stored_bytes

SUFFIX, GUARD_SUFFIX = ".txnindex", ".aborted"
HELD_MAX = 32
"""Closed indexes of a process whose entries stay in memory after a look-up."""

_CRC = struct.Struct(">I")


class TornAbortedIndex(Exception):
    """The file is not what was written."""


def aborted_path(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}{SUFFIX}"


def guard_path(path: str) -> str:
    """Return the path of the empty file that stands for the index at `path`, also before it has its place."""
    return path[: path.rindex(SUFFIX)] + GUARD_SUFFIX


class AbortedIndex:
    """The entries are in memory (active segment) or on disk at `path` (closed segment). Of the loop."""

    __slots__ = ("_disk", "_entries", "_has_file", "_path", "size_bytes")

    def __init__(self, disk: Disk, path: str, *, has_file: bool = False) -> None:
        """An index without entries, in memory. has_file: there is one, which they will take the place of."""
        self._disk = disk
        self._path = path
        self._entries: list[AbortedEntry] | None = []  # None: the file has them
        self._has_file = has_file
        self.size_bytes = 0

    @property
    def is_empty(self) -> bool:
        return self.size_bytes == 0

    @property
    def is_in_memory(self) -> bool:
        return self._entries is not None

    def entries(self) -> Sequence[AbortedEntry]:
        """Return all entries, in the order of their markers. Raise TornAbortedIndex, OSError."""
        if self._entries is not None:
            return self._entries
        if not self.size_bytes:
            return ()
        held = _HELD.get(self)
        if held is None:
            held = _read(self._disk, self._path)
            _HELD[self] = held
            if len(_HELD) > HELD_MAX:
                _HELD.popitem(last=False)
        return held

    def entries_from(self, log_offset: int) -> Sequence[AbortedEntry]:
        """Return those whose markers lie at an offset or beyond."""
        entries = self.entries()
        return entries[bisect_left(entries, log_offset, key=lambda each: each.last_offset) :]

    def append(self, entry: AbortedEntry) -> None:
        self.load()
        assert self._entries is not None
        self._entries.append(entry)
        self.size_bytes += ENTRY_BYTES

    def replace(self, entries: Sequence[AbortedEntry]) -> None:
        """Take these entries, in memory, for what was there."""
        _HELD.pop(self, None)
        self._entries = list(entries)
        self.size_bytes = len(entries) * ENTRY_BYTES

    def truncate(self, log_offset: int) -> None:
        """Drop the entries whose markers lie at an offset or beyond. Raise TornAbortedIndex, OSError."""
        if not self.is_empty:
            self.replace([each for each in self.entries() if each.last_offset < log_offset])

    def load(self) -> None:
        """Back into memory: the segment will grow or be cut. Raise TornAbortedIndex, OSError."""
        if self._entries is None:
            self.replace(self.entries())

    def write(self) -> None:
        """Put the entries on disk (page cache; the flush syncs them), and let go of the memory."""
        if self._entries is None or not (self._entries or self._has_file):
            return
        encoded = b"".join(map(encode_entry, self._entries))
        with closing(self._disk.open(self._path, create=True)) as file:
            file.truncate(0)
            file.pwrite(encoded + _CRC.pack(crc32c(encoded)), 0)
        guard = guard_path(self._path)
        if encoded and not self._disk.exists(guard):
            self._disk.open(guard, create=True).close()
        self._has_file, self._entries = True, None

    def write_even_empty(self) -> None:
        """Write a file in any case: it is to take the place of another one."""
        self._has_file = True
        self.write()

    def fsync(self) -> None:
        if self._has_file and self._entries is None:
            fsync_file(self._disk, self._path)

    def move(self, path: str) -> None:
        """Note that its file has another name by now."""
        self._path = path


_HELD: OrderedDict[AbortedIndex, Sequence[AbortedEntry]] = OrderedDict()


def open_aborted_index(disk: Disk, path: str) -> AbortedIndex:
    """Return a closed segment's index, which has a file, or has lost it. Raise OSError."""
    index = AbortedIndex(disk, path, has_file=True)
    index._entries = None
    size_bytes = stored_bytes(disk, path) if disk.exists(path) else 0
    index.size_bytes = abs(size_bytes - _CRC.size)  # an empty file is torn, not an empty index
    return index


def _read(disk: Disk, path: str) -> list[AbortedEntry]:
    if not disk.exists(path):
        raise TornAbortedIndex(f"{path} is lost")
    with closing(disk.open(path)) as file:
        raw = file.pread(file.size_bytes(), 0)
    encoded, crc = raw[: -_CRC.size], raw[-_CRC.size :]
    if len(crc) < _CRC.size or _CRC.unpack(crc)[0] != crc32c(encoded):
        raise TornAbortedIndex(f"{path}: CRC does not match")
    try:
        return decode_entries(encoded)
    except ValueError as error:
        raise TornAbortedIndex(f"{path}: {error}") from error
