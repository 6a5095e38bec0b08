"""Reading when the records of a segment were made, before the segment goes for its age.

A leader stamps each batch that it appends with its records' own maximum timestamp (produced_records.py). What
a segment got otherwise may not be: from a leader of an earlier release, which believed its producers, or
before this process began. So its batches are opened once, and what they tell is remembered for the segment.
"""

from __future__ import annotations

from dataplane.storage.health import CorruptLog
from dataplane.storage.segment import NO_TIMESTAMP, Segment
from dataplane.storage.segment_list import SegmentList
from springtide.wire.produced_records import latest_record_ms
from springtide.wire.records import DECOMPRESSED_BYTES_MAX


class TimestampReading:
    """One reading of a segment, slice by slice."""

    __slots__ = ("_changes", "_end_position", "_latest_ms", "_position", "_segment", "_segments")

    def __init__(self, segments: SegmentList, segment: Segment) -> None:
        self._segments = segments
        self._segment = segment
        self._changes = segments.changes
        self._end_position = segment.size_bytes
        self._position = 0
        self._latest_ms = NO_TIMESTAMP

    def read_on(self, bytes_max: int) -> bool:
        """Read about so many bytes more; return whether that was all. Thread.

        Records that can't be read, because a producer sealed nonsense or the bytes are rotten, count as young
        as the segment's last append, which after a restart is the time of the restart.
        """
        segment, start = self._segment, self._position
        if segment.holes:
            self._take(segment.last_append_ms)
        try:
            for position, header in segment.walk(start):
                if position >= self._end_position:
                    break
                if position - start >= bytes_max:
                    self._position = position
                    return False
                if header.record_count:
                    batch = segment.read_batch(position, header)
                    found = latest_record_ms(batch, header, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
                    self._take(segment.last_append_ms if found is None else found)
        except CorruptLog:  # a scrub finds it, and what comes behind it
            self._take(segment.last_append_ms)
        return True

    def settle(self) -> bool:
        """Remember what was read, unless the log was changed meanwhile; return whether it was not. Loop."""
        segment = self._segment
        if self._segments.has_changed_since(self._changes) or segment.size_bytes != self._end_position:
            return False
        segment.read_timestamp_ms = self._latest_ms
        segment.is_unread = False
        return True

    def _take(self, timestamp_ms: int) -> None:
        self._latest_ms = max(self._latest_ms, timestamp_ms)
