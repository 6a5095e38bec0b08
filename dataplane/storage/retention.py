"""Which of a log's oldest segments retention may delete. Pure.

Invariant (I26, start, high watermark and end in order): nothing at or beyond the high watermark is deleted,
even if the limits allow it (KAFKA-5634): it is not committed, and a follower may still need it. Segments go
from the oldest on without a gap; the newest may be chosen too when all it holds has expired (the log then
rolls first), so that an idle topic ends empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

UNLIMITED = -1


class SegmentView(NamedTuple):
    """`timestamp_ms` is the largest of its records, or of its last append if they have none. is_read: it was
    seen in the records; else only their batches' headers say so."""

    base_offset: int
    next_offset: int
    size_bytes: int
    timestamp_ms: int
    is_read: bool = True


def segments_to_delete(
    segments: Sequence[SegmentView],
    *,
    expiry_ms: int | None,
    retention_ms: int,
    retention_bytes: int,
    high_watermark: int,
) -> int:
    """Return how many of the oldest segments to delete. A limit of -1 is no limit.

    By time, as Kafka: a segment whose largest timestamp is older than `retention_ms`, counted back from
    `expiry_ms`, which more than one clock vouches for (agreed_time.py); if None, none goes by time; and none
    whose records were not read, because a header is a producer's word (I36, nothing is destroyed on one
    clock's word). By size: as many as may go while at least `retention_bytes` stay.
    """
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        if segment.next_offset > high_watermark or (not segment.size_bytes and segment is segments[-1]):
            break
        is_expired = (
            segment.is_read
            and expiry_ms is not None
            and retention_ms != UNLIMITED
            and expiry_ms - segment.timestamp_ms > retention_ms
        )
        is_excess = retention_bytes != UNLIMITED and excess_bytes >= segment.size_bytes
        if not (is_expired or is_excess):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count
