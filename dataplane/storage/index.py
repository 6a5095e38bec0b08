"""The sparse index of a segment: from an offset or a timestamp to a byte position near it.

One entry every few kilobytes, of one batch: (its base offset relative to the segment's, its position, the
largest timestamp of all batches *before* it). All three columns grow, so one file of 16-byte entries serves
lookups by offset, by position and by time; Kafka keeps two files for the same.

The active segment's index lives in memory and is written when the segment is closed: after an unclean stop it
would be rebuilt anyway. A closed segment's index stays on disk and is probed entry by entry; what the last
look-ups read of it, of few indexes, serves the next ones.

An index is a hint, never believed: a reader that follows an entry compares it with the batch header at its
position, and rebuilds the index from the log on a mismatch. A torn index costs time, not data.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections import OrderedDict
from contextlib import closing
from threading import Lock
from typing import NamedTuple

from dataplane.storage.disk import Disk, fsync_file, stored_bytes

_ENTRY = struct.Struct(">IIq")
ENTRY_BYTES = _ENTRY.size
RELATIVE_OFFSET_MAX = 2**31 - 1
POSITION_MAX = 2**32 - 1
NO_TIMESTAMP = -1
ENTRIES_PER_READ = 512
"""Entries on disk that are read at once and searched in memory: the last steps of a search would each cost
a system call."""
BLOCKS_MAX = 64
"""Closed indexes of a process of which the block that was read last stays in memory."""


class IndexEntry(NamedTuple):
    """All batches of the segment before `position` have timestamps of at most `max_timestamp_before_ms`."""

    relative_offset: int
    position: int
    max_timestamp_before_ms: int


START = IndexEntry(0, 0, NO_TIMESTAMP)
"""The entry that every index knows without storing it."""

_BY_OFFSET, _BY_POSITION, _BY_TIMESTAMP = 0, 1, 2


class _Block(NamedTuple):
    """Entries of an index from one on, column by column, so that a search is all C. One that begins behind
    the first has two at least. is_last: none are behind them."""

    first: int
    columns: tuple[array[int], array[int], array[int]]
    is_last: bool

    def decides(self, column: int, key: int) -> bool:
        """Return whether its entries alone tell the last two at or before a key."""
        keys = self.columns[column]
        return (not self.first or keys[1] <= key) and (self.is_last or key < keys[-1])

    def last_two(self, column: int, key: int) -> tuple[IndexEntry, IndexEntry]:
        after = bisect_right(self.columns[column], key)
        return self._entry_at(after - 2), self._entry_at(after - 1)

    def _entry_at(self, place: int) -> IndexEntry:
        offsets, positions, timestamps = self.columns
        return START if place < 0 else IndexEntry(offsets[place], positions[place], timestamps[place])


def _columns(entries: bytes) -> tuple[array[int], array[int], array[int]]:
    numbers, timestamps = array("I", entries), array("q", entries)
    if sys.byteorder == "little":
        numbers.byteswap()
        timestamps.byteswap()
    return numbers[::4], numbers[1::4], timestamps[1::2]


class _Blocks:
    """The blocks that look-ups have read last, one of each index. Threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: OrderedDict[object, _Block] = OrderedDict()

    def get(self, stored: object) -> _Block | None:
        with self._lock:
            block = self._held.get(stored)
            if block is not None:
                self._held.move_to_end(stored)
            return block

    def put(self, stored: object, block: _Block) -> None:
        with self._lock:
            self._held[stored] = block
            while len(self._held) > BLOCKS_MAX:
                self._held.popitem(last=False)


_BLOCKS = _Blocks()


class SparseIndex:
    """`entries` in memory (active segment) or on disk at `path` (closed segment), never both."""

    __slots__ = ("_disk", "_entries", "_path", "_stored", "count")

    def __init__(self, disk: Disk, path: str, *, count: int, entries: bytearray | None) -> None:
        self._disk = disk
        self._path = path
        self._entries = entries
        self._stored = object()  # stands for what was written last: no block of an earlier file is taken
        self.count = count

    @property
    def size_bytes(self) -> int:
        return self.count * ENTRY_BYTES

    @property
    def is_in_memory(self) -> bool:
        return self._entries is not None

    def append(self, relative_offset: int, position: int, max_timestamp_before_ms: int) -> None:
        assert self._entries is not None, "a closed segment's index does not grow"
        self._entries += _ENTRY.pack(relative_offset, position, max_timestamp_before_ms)
        self.count += 1

    def last(self) -> IndexEntry:
        return self._lookup(_BY_POSITION, POSITION_MAX)[1]

    def for_offset(self, relative_offset: int) -> IndexEntry:
        """The last entry at or before an offset."""
        return self._lookup(_BY_OFFSET, relative_offset)[1]

    def for_position(self, position: int) -> IndexEntry:
        """The last entry at or before a position: a batch boundary there."""
        return self._lookup(_BY_POSITION, position)[1]

    def two_for_position(self, position: int) -> tuple[IndexEntry, IndexEntry]:
        """Return the entry before that of `for_position`, and that."""
        return self._lookup(_BY_POSITION, position)

    def for_timestamp(self, timestamp_ms: int) -> IndexEntry:
        """The last entry before which no batch reaches `timestamp_ms`."""
        return self._lookup(_BY_TIMESTAMP, timestamp_ms - 1)[1]

    def positions_after(self, position: int) -> list[int]:
        """Return the positions of all entries beyond a position, in order."""
        entries = self._read() if self._entries is None else self._entries
        whole = bytes(entries[: len(entries) // ENTRY_BYTES * ENTRY_BYTES])
        return [entry[1] for entry in _ENTRY.iter_unpack(whole) if entry[1] > position]

    def truncate_to_position(self, position: int) -> None:
        """Drop the entries at or beyond `position`."""
        assert self._entries is not None, "only the active segment is cut"
        while self.count and _ENTRY.unpack_from(self._entries, (self.count - 1) * ENTRY_BYTES)[1] >= position:
            self.count -= 1
        del self._entries[self.count * ENTRY_BYTES :]

    def write(self) -> None:
        """Put the entries on disk (page cache; the flush syncs them) and let go of the memory."""
        if self._entries is None:
            return
        with closing(self._disk.open(self._path, create=True)) as file:
            file.truncate(0)
            file.pwrite(self._entries, 0)
        self._stored = object()
        self._entries = None

    def move(self, path: str) -> None:
        """Note that its file has another name by now."""
        self._path = path

    def load(self) -> None:
        """Back into memory: this segment will be appended to or cut."""
        if self._entries is None:
            self._entries = self._read()

    def _read(self) -> bytearray:
        with closing(self._disk.open(self._path)) as file:
            return bytearray(file.pread(self.count * ENTRY_BYTES, 0))

    def fsync(self) -> None:
        if self._entries is None:
            fsync_file(self._disk, self._path)

    def _lookup(self, column: int, key: int) -> tuple[IndexEntry, IndexEntry]:
        """The last entry whose `column` is at most `key`, and before it the one before it."""
        stored, entries = self._stored, self._entries  # in this order: see `write`
        if entries is not None:
            return _last_two(entries, column, key)
        if not self.count:
            return START, START
        block = _BLOCKS.get(stored)
        if block is not None and block.decides(column, key):
            return block.last_two(column, key)
        low, high = 0, self.count
        with closing(self._disk.open(self._path)) as file:
            while high - low > ENTRIES_PER_READ:
                middle = (low + high) // 2
                raw = file.pread(ENTRY_BYTES, middle * ENTRY_BYTES)
                # Shorter than on open: the missing rest is treated as not there.
                if len(raw) == ENTRY_BYTES and _ENTRY.unpack(raw)[column] <= key:
                    low = middle
                else:
                    high = middle
            first = max(low - 1, 0)
            raw = file.pread((high - first) * ENTRY_BYTES, first * ENTRY_BYTES)
        block = _Block(first, _columns(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES]), high == self.count)
        if len(raw) == (high - first) * ENTRY_BYTES:  # else the file is torn, or being written
            _BLOCKS.put(stored, block)
        return block.last_two(column, key)


def _last_two(entries: bytearray, column: int, key: int) -> tuple[IndexEntry, IndexEntry]:
    after = bisect_right(
        range(len(entries) // ENTRY_BYTES),
        key,
        key=lambda place: int(_ENTRY.unpack_from(entries, place * ENTRY_BYTES)[column]),
    )
    return _entry_at(entries, after - 2), _entry_at(entries, after - 1)


def _entry_at(entries: bytearray, place: int) -> IndexEntry:
    return START if place < 0 else IndexEntry._make(_ENTRY.unpack_from(entries, place * ENTRY_BYTES))


def new_index(disk: Disk, path: str) -> SparseIndex:
    """An empty index for a fresh or rebuilt segment."""
    return SparseIndex(disk, path, count=0, entries=bytearray())


def open_index(disk: Disk, path: str) -> SparseIndex | None:
    """A closed segment's index as found; None if it is missing or torn (no whole number of entries). Its
    entries are still to be checked against the log."""
    try:
        size = stored_bytes(disk, path)
    except FileNotFoundError:
        return None
    if size % ENTRY_BYTES:
        return None
    return SparseIndex(disk, path, count=size // ENTRY_BYTES, entries=None)
