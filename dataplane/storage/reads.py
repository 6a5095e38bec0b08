"""Reading a log from its segments' files: what the tail cache does not hold.

Nothing here is changed by a read (but a torn index, which is rebuilt), so a shell may read in a thread while
the loop appends. Damage is CorruptLog, never a short answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from dataplane.core.log_port import LogSlice, TimestampHit
from dataplane.storage.health import CorruptLog
from dataplane.storage.segment import NO_TIMESTAMP, Segment, latest_timestamp
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import BatchHeader, CorruptBatch
from springtide.wire.records import iter_records

COMPARED_MAX = 64
"""Batches by which two logs are compared."""


def segment_index(segments: Sequence[Segment], log_offset: int) -> int:
    """Return which segment holds an offset: the last that begins at or before it."""
    found = bisect_right(segments, log_offset, key=lambda segment: segment.base_offset) - 1
    return max(found, 0)


def read_segments(
    segments: Sequence[Segment],
    log_offset: int,
    *,
    max_bytes: int,
    end_offset: int,
    at_least_one: bool,
) -> LogSlice:
    """See LogPort.read. A range lies in one segment: the next read goes on with the next."""
    for segment in segments[segment_index(segments, log_offset) :]:
        found = segment.find(log_offset) if log_offset < segment.next_offset else None
        if found is None:  # a gap up to the segment's end
            continue
        position, header = found
        if header.next_offset > end_offset:
            break
        following, next_offset = segment.boundary_before(
            position + max_bytes, after=position, end_offset=end_offset
        )
        if next_offset < 0:
            if not at_least_one:
                break
            following, next_offset = position + header.size_bytes, header.next_offset
        size = following - position
        return LogSlice((FileChunk(segment.file, position, size),), size, next_offset)
    return LogSlice((), 0, log_offset)


def last_batches(
    segments: Sequence[Segment], end_offset: int, *, first_offset: int | None
) -> list[BatchHeader] | None:
    """See LogPort.last_batches. Damage is no error here: a scrub finds it."""
    is_tail = first_offset is None
    begin = end_offset - 1 if first_offset is None else first_offset
    found: list[BatchHeader] = []
    try:
        for segment in segments[segment_index(segments, begin) :]:
            for position, header in segment.walk(segment.boundary_at(begin, is_wide=is_tail)):
                if header.next_offset > end_offset:
                    return found
                if not is_tail and header.next_offset <= begin:
                    continue
                if is_tail and found and header.leader_epoch != found[-1].leader_epoch:
                    found.clear()
                if len(found) == COMPARED_MAX:
                    if not is_tail:
                        return found
                    del found[0]
                segment.read_batch(position, header)
                found.append(header)
    except CorruptLog:
        return None
    return found


def last_data_batches(segments: Sequence[Segment], count: int) -> list[BatchHeader]:
    """See LogPort.last_data_batches."""
    found: list[BatchHeader] = []
    for segment in reversed(segments):
        for stretch in segment.stretches_back():
            for position, header in reversed(stretch):
                if header.is_control:
                    continue
                segment.read_batch(position, header)
                found.insert(0, header)
                if len(found) == count:
                    return found
    return found


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, *, log_start_offset: int, end_offset: int
) -> TimestampHit | None:
    """See LogPort.find_timestamp."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        for position, header in segment.walk(segment.timestamp_start(timestamp_ms)):
            if header.base_offset >= end_offset:
                return None
            if header.max_timestamp < timestamp_ms or header.next_offset <= log_start_offset:
                continue
            hit = _find_in_batch(
                segment,
                position,
                header,
                timestamp_ms,
                log_start_offset=log_start_offset,
                end_offset=end_offset,
            )
            if hit is not None:
                return hit
    return None


def find_max_timestamp(
    segments: Sequence[Segment], *, log_start_offset: int, end_offset: int
) -> TimestampHit | None:
    """See LogPort.find_max_timestamp. Each segment knows its own largest timestamp; only a segment in which
    the log starts or `end_offset` lies is read for it."""
    latest_ms = NO_TIMESTAMP
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        if segment.next_offset <= log_start_offset:
            continue
        if segment.base_offset >= log_start_offset:
            latest_ms = max(latest_ms, segment.max_timestamp_below(end_offset))
            continue
        for position, header in segment.walk(segment.boundary_at(log_start_offset)):
            if header.next_offset > end_offset:
                break
            if header.base_offset >= log_start_offset:
                latest_ms = latest_timestamp(latest_ms, header)
            elif header.next_offset > log_start_offset:
                latest_ms = max(
                    latest_ms, _max_timestamp_in_batch(segment, position, header, log_start_offset)
                )
    if latest_ms < 0:
        return None
    return find_timestamp(segments, latest_ms, log_start_offset=log_start_offset, end_offset=end_offset)


def _max_timestamp_in_batch(
    segment: Segment, position: int, header: BatchHeader, log_start_offset: int
) -> int:
    try:
        return max(
            (
                record.timestamp
                for record in iter_records(segment.read_batch(position, header))
                if record.offset >= log_start_offset
            ),
            default=NO_TIMESTAMP,
        )
    except CorruptBatch:
        return header.max_timestamp


def _find_in_batch(
    segment: Segment,
    position: int,
    header: BatchHeader,
    timestamp_ms: int,
    *,
    log_start_offset: int,
    end_offset: int,
) -> TimestampHit | None:
    view = segment.read_batch(position, header)
    try:
        for record in iter_records(view):
            if record.offset >= end_offset:
                return None
            if record.timestamp >= timestamp_ms and record.offset >= log_start_offset:
                return TimestampHit(record.offset, record.timestamp, LeaderEpoch(header.leader_epoch))
    except CorruptBatch:
        # The producer sealed nonsense under a valid CRC: its consumers fail on it, lookups need not.
        first = max(header.base_offset, log_start_offset)
        return TimestampHit(first, header.max_timestamp, LeaderEpoch(header.leader_epoch))
    return None
