"""A copy that a truncation left in `divergent/`, open for reading by offset.

A copy never changes, so reading needs no more than where its batches stand: a sparse index in memory, made by
one pass over the file that believes nothing (lengths, CRC, order of offsets and epochs). A read then costs a
look into one stretch of headers; the records themselves are sent from the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from dataplane.core.log_port import LogSlice
from dataplane.storage.disk import Disk, File
from dataplane.storage.divergent import DivergentRange, FoundCopy
from dataplane.storage.health import CorruptLog
from dataplane.storage.scan import ScanStop, SegmentScan
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, decode_header

INDEX_INTERVAL_BYTES = 64 * 1024


class DivergentLog:
    """`range` says which offsets it holds. Its first batch may begin below them: batches are kept whole."""

    __slots__ = ("_file", "_offsets", "_positions", "_size_bytes", "path", "range")

    def __init__(
        self,
        *,
        path: str,
        described: DivergentRange,
        file: File,
        offsets: array[int],
        positions: array[int],
        size_bytes: int,
    ) -> None:
        assert len(offsets) == len(positions)
        self.path = path
        self.range = described
        self._file = file
        self._offsets = offsets
        self._positions = positions
        self._size_bytes = size_bytes

    def read(self, log_offset: int, *, max_bytes: int, at_least_one: bool) -> LogSlice:
        """Whole batches from the one that contains `log_offset`, or in a gap from the next one on; see
        LogPort.read. Raises CorruptLog if the file is not what it was, OSError if it can't be read."""
        found = self._find(log_offset)
        if found is None:
            return LogSlice((), 0, log_offset)
        start, first = found
        end, next_offset = self._boundary_before(start + max_bytes, after=start)
        if end == start:
            if not at_least_one:
                return LogSlice((), 0, log_offset)
            end, next_offset = start + first.size_bytes, first.next_offset
        return LogSlice((FileChunk(self._file, start, end - start),), end - start, next_offset)

    def _find(self, log_offset: int) -> tuple[int, BatchHeader] | None:
        stretch = max(bisect_right(self._offsets, log_offset) - 1, 0)
        for number in range(stretch, min(stretch + 2, len(self._positions))):
            for position, header in self._walk(number):
                if log_offset < header.next_offset:
                    return position, header
        return None

    def _boundary_before(self, position_max: int, *, after: int) -> tuple[int, int]:
        """(position, next offset) of a batch boundary at or before `position_max`: the last one, or one that
        the index knows. `after` itself, with -1, if not even one batch fits."""
        if position_max >= self._size_bytes:
            return self._size_bytes, self.range.next_offset
        stretch = bisect_right(self._positions, position_max) - 1
        if self._positions[stretch] > after:
            return self._positions[stretch], self._offsets[stretch]
        found, next_offset = after, -1
        for position, header in self._walk(stretch):
            following = position + header.size_bytes
            if following > position_max:
                break
            if following > after:
                found, next_offset = following, header.next_offset
        return found, next_offset

    def _walk(self, stretch: int) -> Iterator[tuple[int, BatchHeader]]:
        """The headers from one entry of the index up to the next."""
        start = self._positions[stretch]
        is_last = stretch + 1 == len(self._positions)
        end = self._size_bytes if is_last else self._positions[stretch + 1]
        # Batches of a stretch begin within the interval; only the last one's body may lie beyond.
        headers = self._file.pread(min(INDEX_INTERVAL_BYTES + HEADER_BYTES, end - start), start)
        position = start
        while position < end:
            at = position - start
            if at + HEADER_BYTES > len(headers):
                raise CorruptLog(f"{self.path} is shorter than it was, at {position}")
            header = decode_header(headers, at)
            if not header.is_plausible:
                raise CorruptLog(f"{self.path} at {position}: no record batch here any more")
            yield position, header
            position += header.size_bytes


def open_copy(disk: Disk, found: FoundCopy) -> DivergentLog:
    """Reads all of it once: in a thread. Raises CorruptLog if it is not what was written, OSError if it can't
    be read."""
    file = disk.open(found.path)
    offsets, positions = array("q"), array("q")
    scan = SegmentScan(file, next_offset=0, leader_epoch=-1)
    for position, header in scan:
        if not positions or position - positions[-1] >= INDEX_INTERVAL_BYTES:
            offsets.append(header.base_offset)
            positions.append(position)
    if scan.stop is not ScanStop.END or scan.size_bytes != found.size_bytes:
        raise CorruptLog(
            f"{found.path} has {scan.position} good bytes of the {found.size_bytes} that were written"
        )
    if scan.next_offset > found.range.next_offset:
        raise CorruptLog(f"{found.path} goes on to offset {scan.next_offset}, beyond what it describes")
    return DivergentLog(
        path=found.path,
        described=found.range,
        file=file,
        offsets=offsets,
        positions=positions,
        size_bytes=found.size_bytes,
    )
