"""One segment of a log: a file of record batches one after another, and its sparse index.

A segment's name is the offset at which it begins, which is where the segment before it ends: a chain that
recovery checks, so that a dropped segment which a power cut brings back is not taken for data.

Reading walks batch headers from an index entry on. A header that does not fit is either a torn index, which
is rebuilt from the file, or a damaged log, which is CorruptLog: never an answer that is quietly short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from itertools import takewhile
from typing import NamedTuple

from dataplane.core.log_port import RottenRange
from dataplane.storage.aborted_index import AbortedIndex, TornAbortedIndex, aborted_path, guard_path
from dataplane.storage.disk import Buffer, Disk, File
from dataplane.storage.health import CorruptLog
from dataplane.storage.index import (
    POSITION_MAX,
    RELATIVE_OFFSET_MAX,
    START,
    IndexEntry,
    SparseIndex,
    new_index,
    open_index,
)
from springtide.wire.record_batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    decode_header,
)

WALK_CHUNK_BYTES_MIN, WALK_CHUNK_BYTES_MAX = 4 * 1024, 64 * 1024
"""Bytes read at once by a walk over batch headers: many while batches are small, few between large ones."""
WALK_CHUNK_GROWTH = 4
NEAR_ENOUGH = 16
"""A range may end so small a part early, at an entry of the index: nothing is walked from there to its very
end, nor by the next read to its beginning."""
NO_TIMESTAMP = -1


def log_path(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}.log"


def index_path(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}.index"


def segment_paths(directory: str, base_offset: int) -> tuple[str, ...]:
    """Return the paths of a segment's files, its log first. Not every segment has all of the others."""
    aborted = aborted_path(directory, base_offset)
    return (
        log_path(directory, base_offset),
        index_path(directory, base_offset),
        aborted,
        guard_path(aborted),
    )


def unlink_segment(disk: Disk, directory: str, base_offset: int) -> None:
    """Unlink a segment's files. Durable after the next fsync of the directory."""
    log, *others = segment_paths(directory, base_offset)
    disk.unlink(log)
    for path in others:
        if disk.exists(path):
            disk.unlink(path)


def latest_timestamp(known_ms: int, header: BatchHeader) -> int:
    """Return the largest timestamp of records, with those of one more batch. A batch that compaction left
    without records keeps the timestamp in its header, for its producer's sake."""
    return max(known_ms, header.max_timestamp) if header.record_count else known_ms


TO_THE_END = -1


class Hole(NamedTuple):
    """Bytes at rest that can't be believed (rot.py): [position, end_position) of the segment that begins at
    base_offset, records [first_offset, next_offset). Both ends TO_THE_END: up to the segment's. reason: for
    people."""

    base_offset: int
    position: int
    end_position: int
    first_offset: int
    next_offset: int
    reason: str

    @property
    def range(self) -> RottenRange:
        return RottenRange(self.first_offset, self.next_offset, self.reason)


@dataclass(slots=True, eq=False)
class Segment:
    """`next_offset` is one past its last batch, or its base offset while it is empty; of a rewritten segment,
    where the next one begins (manifest.py)."""

    disk: Disk
    directory: str
    base_offset: int
    file: File
    index: SparseIndex
    index_interval_bytes: int
    now_ms: InitVar[int]
    size_bytes: int = 0
    next_offset: int = field(init=False)
    aborted: AbortedIndex = field(init=False)
    max_timestamp_ms: int = NO_TIMESTAMP
    first_append_ms: int = field(init=False)
    last_append_ms: int = field(init=False)
    #: The largest timestamp that was read in its records (timestamp_reading.py).
    read_timestamp_ms: int = NO_TIMESTAMP
    #: It may hold batches whose records were not read: their headers may lie.
    is_unread: bool = True
    bytes_since_index: int = 0
    #: What is known to be rotten in it: walked around.
    holes: tuple[Hole, ...] = ()
    #: CRC32C of all its bytes, by the manifest; None unless it is rewritten.
    crc: int | None = None

    def __post_init__(self, now_ms: int) -> None:
        self.next_offset = self.base_offset
        self.aborted = AbortedIndex(self.disk, aborted_path(self.directory, self.base_offset))
        self.first_append_ms = self.last_append_ms = now_ms

    @property
    def latest_ms(self) -> int:
        """Return the largest timestamp of its records, or of its last append if they have none."""
        latest_ms = max(self.max_timestamp_ms, self.read_timestamp_ms)
        return latest_ms if latest_ms >= 0 else self.last_append_ms

    def has_room_for(self, header: BatchHeader, size_bytes: int, *, index_bytes_max: int) -> bool:
        """Return whether an append still fits the index's fields and size. The caller checks other limits."""
        return (
            header.next_offset - self.base_offset <= RELATIVE_OFFSET_MAX
            and self.size_bytes + size_bytes <= POSITION_MAX
            and self.index.size_bytes < index_bytes_max
            and self.aborted.size_bytes < index_bytes_max
        )

    def append(
        self,
        headers: Sequence[BatchHeader],
        chunks: Sequence[Buffer],
        *,
        now_ms: int,
    ) -> None:
        """Write at the end, then note it. OSError leaves everything but the file as it was."""
        position = self.size_bytes
        if len(chunks) == 1:
            self.file.pwrite(chunks[0], position)
        else:
            self.file.pwritev(chunks, position)
        if not position:
            self.first_append_ms = now_ms
        self.last_append_ms = now_ms
        for header in headers:
            self.note_batch(header, position)
            position = self.size_bytes

    def note_batch(self, header: BatchHeader, position: int) -> None:
        """Take in a batch that stands in the file at `position`, the end of what was known."""
        if self.bytes_since_index >= self.index_interval_bytes:
            self.index.append(header.base_offset - self.base_offset, position, self.max_timestamp_ms)
            self.bytes_since_index = 0
        size = header.size_bytes
        self.bytes_since_index += size
        if header.max_timestamp > self.max_timestamp_ms and header.record_count:
            self.max_timestamp_ms = header.max_timestamp
        self.next_offset = header.next_offset
        self.size_bytes = position + size

    def find(self, log_offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the batch that contains `log_offset` or, in a gap, of the next one; None if
        there is none in this segment."""
        entry = self.index.for_offset(log_offset - self.base_offset)
        for position, header in self._walk_from(entry, otherwise=0):
            if log_offset < header.next_offset:
                return position, header
        return None

    def boundary_before(self, position_max: int, *, after: int, end_offset: int) -> tuple[int, int]:
        """(position, next offset) of the last batch boundary at or before `position_max`, or of an index
        entry not far before it, such that all before it is below `end_offset`. `after` is a boundary to begin
        from; it is returned, with -1, when not even one batch fits."""
        found, next_offset, near_enough = after, -1, -1
        if position_max >= self.size_bytes and end_offset >= self.next_offset:
            return (self.size_bytes, self.next_offset) if after < self.size_bytes else (after, -1)
        earlier, hint = self.index.two_for_position(position_max)
        if end_offset < self.next_offset:
            by_offset = self.index.for_offset(end_offset - self.base_offset)
            if by_offset.position < hint.position:
                earlier, hint = self.index.two_for_position(by_offset.position)
        if after < earlier.position < hint.position:
            # The hint is a boundary, but what offset stands before it only the walk of one batch tells.
            batches = self._walk_from(earlier, otherwise=after)
            if position_max - hint.position <= (hint.position - after) // NEAR_ENOUGH:
                near_enough = hint.position
        else:
            batches = self.walk(after)
        for position, header in batches:
            following = position + header.size_bytes
            if following > position_max or header.next_offset > end_offset:
                break
            found, next_offset = following, header.next_offset
            if following == near_enough:
                break
        return found, next_offset

    def walk(self, position: int = 0, chunk: bytes = b"") -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a boundary on. Raises CorruptLog where none can be. chunk:
        what was read there already."""
        end = self.size_bytes
        chunk_start, chunk_bytes = position, WALK_CHUNK_BYTES_MIN
        while position < end:
            if self.holes:
                hole = next((hole for hole in self.holes if hole.position == position), None)
                if hole is not None:
                    position = hole.end_position
                    continue
            if end - position < HEADER_BYTES:
                raise self.corrupt(position, "fewer bytes than a header")
            if position + HEADER_BYTES > chunk_start + len(chunk):
                if chunk:
                    is_dense = position < chunk_start + 2 * len(chunk)
                    chunk_bytes = (
                        min(WALK_CHUNK_GROWTH * chunk_bytes, WALK_CHUNK_BYTES_MAX)
                        if is_dense
                        else WALK_CHUNK_BYTES_MIN
                    )
                chunk = self.file.pread(min(chunk_bytes, end - position), position)
                chunk_start = position
                if len(chunk) < HEADER_BYTES:
                    raise self.corrupt(position, "the file is shorter than what was written to it")
            header = decode_header(chunk, position - chunk_start)
            following = position + header.size_bytes
            if not header.is_plausible or following > end:
                raise self.corrupt(position, "no record batch here")
            yield position, header
            position = following

    def stretches_back(self) -> Iterator[list[tuple[int, BatchHeader]]]:
        """Yield (position, header) of the batches from one index entry to the next, the last stretch
        first."""
        end = self.size_bytes
        while end:
            start = self._checked(self.index.for_position(end - 1)).position
            yield list(takewhile(lambda batch: batch[0] < end, self.walk(start)))  # noqa: B023 - consumed here
            end = start

    def read_batch(self, position: int, header: BatchHeader) -> memoryview:
        """One whole batch, its CRC checked. Raises CorruptLog."""
        view = memoryview(self.file.pread(header.size_bytes, position))
        if not crc_is_valid(view, header):
            raise self.corrupt(position, "CRC does not match")
        return view

    def close_index(self) -> None:
        """The segment will not grow any more (rolled, or a clean stop)."""
        self.index.write()

    def close_indexes(self) -> None:
        """The same, of both."""
        self.index.write()
        self.aborted.write()

    def fsync(self) -> None:
        self.file.fsync()
        self.index.fsync()
        self.aborted.fsync()

    def reopen_for_append(self) -> None:
        """Make a closed segment the active one again. A torn index of aborted transactions stays torn: the
        log builds it again (SegmentList.check_aborted)."""
        self.index.load()
        with suppress(TornAbortedIndex):
            self.aborted.load()
        self.bytes_since_index = self.size_bytes - self.index.last().position

    def truncate(self, position: int) -> None:
        """Cut at a batch boundary. The index must be in memory."""
        self.file.truncate(position)
        self.index.truncate_to_position(position)
        self.crc = None
        last = self.index.last()
        self.size_bytes = position
        self.bytes_since_index = position - last.position
        self.next_offset = self.base_offset
        self.max_timestamp_ms = last.max_timestamp_before_ms
        for _, header in self.walk(last.position):
            self.next_offset = header.next_offset
            self.max_timestamp_ms = latest_timestamp(self.max_timestamp_ms, header)
        self.aborted.truncate(self.next_offset)

    def rebuild_index(self) -> Segment:
        """Rebuild it from the headers of the log, into the place (memory or disk) where the index was. A
        reader in another thread sees the old one or the new one. Return what the walk has learnt; what a
        thread has read must not become this segment's."""
        learnt = Segment(
            self.disk,
            self.directory,
            base_offset=self.base_offset,
            file=self.file,
            index=new_index(self.disk, index_path(self.directory, self.base_offset)),
            index_interval_bytes=self.index_interval_bytes,
            now_ms=self.last_append_ms,
        )
        for position, header in self.walk():
            learnt.note_batch(header, position)
        if not self.index.is_in_memory:
            learnt.close_index()
        self.index = learnt.index
        return learnt

    def corrupt(self, position: int, reason: str) -> CorruptLog:
        where = f"{log_path(self.directory, self.base_offset)} at {position}"
        return CorruptLog(f"{where}: {reason}", base_offset=self.base_offset, position=position)

    def offset_at(self, position: int) -> int:
        """Return the offset at which the batches before a position end, as far as headers can be followed."""
        entry = self._checked(self.index.for_position(position))
        offset = self.base_offset + entry.relative_offset
        try:
            for start, header in self.walk(entry.position):
                if start >= position:
                    break
                offset = header.next_offset
        except CorruptLog:
            pass
        return offset

    def _walk_from(self, entry: IndexEntry, *, otherwise: int) -> Iterator[tuple[int, BatchHeader]]:
        """Walk from an index entry on, which the first read checks; from another boundary if it is wrong."""
        if entry is START:
            return self.walk()
        position = entry.position
        chunk = self.file.pread(max(0, min(WALK_CHUNK_BYTES_MIN, self.size_bytes - position)), position)
        return self.walk(otherwise) if self._checked(entry, chunk) is START else self.walk(position, chunk)

    def _checked(self, entry: IndexEntry, chunk: bytes | None = None) -> IndexEntry:
        """The entry if the log agrees with it; else the index is rebuilt and the start is answered, from
        where a walk finds everything. An index in memory was never torn: there the log is damaged, which the
        walk finds, or is being cut under a reader in a thread."""
        if entry is START or self.agrees_with(entry, chunk):
            return entry
        if not self.index.is_in_memory:
            self.rebuild_index()
        return START

    def agrees_with(self, entry: IndexEntry, chunk: bytes | None = None) -> bool:
        """Return whether the batch of an index entry is where the entry says. chunk: what was read there."""
        if entry.position + HEADER_BYTES > self.size_bytes:
            return False
        raw = self.file.pread(HEADER_BYTES, entry.position) if chunk is None else chunk
        if len(raw) < HEADER_BYTES:
            return False
        header = decode_header(raw)
        return header.magic == MAGIC and header.base_offset == self.base_offset + entry.relative_offset

    def boundary_at(self, log_offset: int, *, is_wide: bool = False) -> int:
        """A batch boundary before which everything is below `log_offset`. is_wide: the one before it that the
        index knows."""
        entry = self._checked(self.index.for_offset(log_offset - self.base_offset))
        if is_wide and entry.position:
            entry = self._checked(self.index.for_position(entry.position - 1))
        return entry.position

    def timestamp_start(self, timestamp_ms: int) -> int:
        """A batch boundary before which no record reaches `timestamp_ms`."""
        return self._checked(self.index.for_timestamp(timestamp_ms)).position

    def max_timestamp_below(self, end_offset: int) -> int:
        """The largest timestamp of the whole batches below `end_offset`; NO_TIMESTAMP without any."""
        if end_offset >= self.next_offset:
            return self.max_timestamp_ms
        entry = self._checked(self.index.for_offset(end_offset - self.base_offset))
        found = entry.max_timestamp_before_ms
        for _, header in self.walk(entry.position):
            if header.next_offset > end_offset:
                break
            found = latest_timestamp(found, header)
        return found


def create_segment(
    disk: Disk, directory: str, *, base_offset: int, index_interval_bytes: int, now_ms: int
) -> Segment:
    """A new, empty active segment. Its name is durable only after the next directory fsync."""
    file = disk.open(log_path(directory, base_offset), create=True)
    file.truncate(0)
    return Segment(
        disk,
        directory,
        base_offset=base_offset,
        file=file,
        index=new_index(disk, index_path(directory, base_offset)),
        index_interval_bytes=index_interval_bytes,
        now_ms=now_ms,
        is_unread=False,
    )


def open_segment(
    disk: Disk, directory: str, *, base_offset: int, index_interval_bytes: int, now_ms: int
) -> Segment:
    """A segment whose file is believed whole (clean stop, or below the recovery point). Walks from the last
    index entry to the end, which is a few headers; a missing or torn index is rebuilt from all headers.
    Raises CorruptLog if the file does not end with a whole batch."""
    index = open_index(disk, index_path(directory, base_offset))
    segment = Segment(
        disk,
        directory,
        base_offset=base_offset,
        file=disk.open(log_path(directory, base_offset)),
        index=index or new_index(disk, index_path(directory, base_offset)),
        index_interval_bytes=index_interval_bytes,
        now_ms=now_ms,
    )
    segment.size_bytes = segment.file.size_bytes()
    last = START if index is None else index.last()
    if index is None or not (last is START or segment.agrees_with(last)):
        learnt = segment.rebuild_index()
        learnt.close_index()
        return learnt
    segment.max_timestamp_ms = last.max_timestamp_before_ms
    for _, header in segment.walk(last.position):
        segment.max_timestamp_ms = latest_timestamp(segment.max_timestamp_ms, header)
        segment.next_offset = header.next_offset
    return segment
