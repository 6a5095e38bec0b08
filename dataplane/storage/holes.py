"""What a log knows of its rotten bytes (5.7, scrubbing): found by a scrub, remembered, mended, forgotten.

The holes hang on their segments, which walk around them, and stand in a file beside the log (rot.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dataplane.core.leader_epochs import LeaderEpochs
from dataplane.core.log_port import LogChanged, RottenBytes, RottenRange, SuspectBytes
from dataplane.storage.disk import Buffer, Disk
from dataplane.storage.health import CorruptLog, LogHealth
from dataplane.storage.rot import (
    CheckedSlice,
    ScrubPlace,
    check_slice,
    read_at_rest,
    read_rotten,
    write_rotten,
)
from dataplane.storage.segment import TO_THE_END, Hole
from dataplane.storage.segment_list import SegmentList


class Holes:
    """`ranges` are the holes as readers meet them, in order."""

    __slots__ = ("_disk", "_epochs", "_health", "_segments", "ranges")

    def __init__(
        self,
        disk: Disk,
        health: LogHealth,
        segments: SegmentList,
        epochs: LeaderEpochs,
    ) -> None:
        self._disk = disk
        self._health = health
        self._segments = segments
        self._epochs = epochs
        self.ranges: Sequence[RottenRange] = ()

    @property
    def all(self) -> list[Hole]:
        return [hole for segment in self._segments.all for hole in segment.holes]

    def load(self, *, log_start_offset: int) -> None:
        """Load the damage that earlier processes found. Thread, at start."""
        with self._health.guarded("reading"):
            found = read_rotten(self._disk, self._health.path)
            for segment in self._segments.all:
                segment.holes = tuple(hole for hole in found if hole.base_offset == segment.base_offset)
            self._settle(found, log_start_offset)

    def place_near(self, offset: int) -> ScrubPlace:
        """Return a batch boundary at or before an offset, from which a scrub can read."""
        segment = self._segments.at(offset)
        entry = segment.index.for_offset(offset - segment.base_offset)
        if not segment.agrees_with(entry):
            return ScrubPlace(segment.base_offset, 0, segment.base_offset)
        return ScrubPlace(segment.base_offset, entry.position, segment.base_offset + entry.relative_offset)

    def check(self, place: ScrubPlace, *, end_offset: int, bytes_max: int) -> CheckedSlice:
        """Check stored bytes: see rot.check_slice. Thread. Raises LogChanged, LogError; CorruptLog ends the
        log."""
        self._health.check()
        changes = self._segments.changes
        try:
            checked = check_slice(
                self._disk,
                self._segments.all,
                place,
                end_offset=end_offset,
                bytes_max=bytes_max,
                epoch_at=self._epochs.epoch_at,
            )
        except OSError as error:
            self._check_unchanged(changes)
            raise self._health.failed(error, "scrubbing") from error
        except CorruptLog as error:
            self._check_unchanged(changes)
            raise self._health.condemn(error) from None
        self._check_unchanged(changes)
        return checked

    def note(self, hole: Hole, *, log_start_offset: int) -> None:
        """Remember a hole, durably. Loop: this is rare, and a cut must not come between. Raises LogError."""
        self._health.check()
        segment = self._segments.find(hole.base_offset)
        if segment is None or any(known.position == hole.position for known in segment.holes):
            return
        if hole.end_position == TO_THE_END:
            hole = hole._replace(end_position=segment.size_bytes, next_offset=segment.next_offset)
        segment.holes = tuple(sorted((*segment.holes, hole)))
        self._rewrite(log_start_offset)

    def mend(self, hole: Hole, batches: Buffer) -> None:
        """Write good batches over the beginning of a hole, fsync them, and read them back from the disk. The
        hole stays until `close`. Thread. Raises LogChanged, LogError.
        """
        self._health.check()
        changes = self._segments.changes
        segment = self._segments.find(hole.base_offset)
        if segment is None or hole not in segment.holes or len(batches) > hole.end_position - hole.position:
            raise LogChanged(f"{hole.reason}: nothing to mend any more")
        with self._health.guarded("mending"):
            segment.file.pwrite(batches, hole.position)
            segment.file.fsync()
            written = read_at_rest(segment.file, len(batches), hole.position)
        self._check_unchanged(changes)
        if written != batches:
            raise self._health.failed(OSError(f"{hole.reason}: it rots again at once"), "mending")

    def close(self, hole: Hole, *, size_bytes: int, next_offset: int, log_start_offset: int) -> None:
        """Record that the first `size_bytes` of a hole are whole again. Loop. Raises LogError."""
        self._health.check()
        for segment in self._segments.all:
            if hole in segment.holes:
                rest = hole._replace(position=hole.position + size_bytes, first_offset=next_offset)
                is_closed = rest.position >= rest.end_position
                others = (other for other in segment.holes if other != hole)
                segment.holes = tuple(sorted((*others, *(() if is_closed else (rest,)))))
        self._rewrite(log_start_offset)

    def good_until(self, offset: int, *, end_offset: int) -> int:
        """Return the offset where a read from `offset` must end, at most `end_offset`; raise RottenBytes if
        it lies in a damaged range.
        """
        for found in self.ranges:
            if found.first_offset <= offset < found.next_offset:
                raise RottenBytes(found.reason)
            if offset < found.first_offset:
                return min(end_offset, found.first_offset)
        return end_offset

    @contextmanager
    def reading(self, first_offset: int | None) -> Iterator[None]:
        """Translate errors of a read in a thread. The loop may have cut or deleted files under the reader, so
        an error counts as a failure only if the log did not change. If first_offset is given, a scrub looks
        for the damaged bytes from there; if None, they end the log.
        """
        changes = self._segments.changes
        try:
            yield
        except (OSError, CorruptLog, struct.error) as error:
            if self._segments.has_changed_since(changes):
                raise LogChanged(f"{self._health.path} was changed under a reader") from error
            if isinstance(error, OSError):
                raise self._health.failed(error, "reading") from error
            assert isinstance(error, CorruptLog), error
            if first_offset is not None:
                raise self._suspect(error, first_offset) from None
            if self.ranges:
                raise RottenBytes(str(error)) from None
            raise self._health.condemn(error) from None

    def _suspect(self, error: CorruptLog, first_offset: int) -> SuspectBytes:
        found = self._segments.find(error.base_offset)
        if found is None:
            return SuspectBytes(str(error), first_offset=first_offset, bad_offset=first_offset)
        try:
            bad_offset = found.offset_at(error.position)
        except (OSError, struct.error):
            bad_offset = found.base_offset
        first_offset = max(first_offset, found.base_offset)
        return SuspectBytes(str(error), first_offset=first_offset, bad_offset=max(first_offset, bad_offset))

    def forget_gone(self, *, log_start_offset: int) -> None:
        """Forget the holes that a cut or a deletion removed."""
        if self.ranges:
            self._rewrite(log_start_offset)

    def _check_unchanged(self, changes: int) -> None:
        if self._segments.has_changed_since(changes):
            raise LogChanged(f"{self._health.path} was changed under a scrub")

    def _rewrite(self, log_start_offset: int) -> None:
        with self._health.guarded("marking as rotten"):
            self._settle(None, log_start_offset)

    def _settle(self, stored: Sequence[Hole] | None, log_start_offset: int) -> None:
        """Forget holes in what was cut or deleted; store the others, unless they are stored already."""
        for segment in self._segments.all:
            segment.holes = tuple(
                hole
                for hole in segment.holes
                if hole.end_position <= segment.size_bytes and hole.next_offset > log_start_offset
            )
        holes = self.all
        if stored is None or holes != list(stored):
            write_rotten(self._disk, self._health.path, holes)
        self.ranges = tuple(hole.range for hole in holes)
