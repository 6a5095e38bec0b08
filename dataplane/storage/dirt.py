"""How dirty a compacted log is: what its leader decides the next round by.

Rounds end where segments end, as in Kafka: the active segment, segments that are not committed as a whole and
those that hold a record younger than min.compaction.lag.ms are left for later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from dataplane.core.compaction.rounds import Dirt
from dataplane.storage.segment import Segment


def measure_dirt(
    segments: Sequence[Segment],
    *,
    clean_to: int,
    high_watermark: int,
    young_ms: int | None,
    has_max_lag: bool,
) -> Dirt:
    """Return what there is to compact. Reads a header of each dirty segment if there is a greatest lag.
    Raises OSError, CorruptLog.

    clean_to: where the last round ends. young_ms: records from this time on are too young; None if none is.
    """
    clean_bytes = dirty_bytes = 0
    end_offset = clean_to
    firsts: list[int] = []
    for segment in segments[:-1]:
        if segment.next_offset <= clean_to:
            clean_bytes += segment.size_bytes
            continue
        is_young = young_ms is not None and segment.latest_ms >= young_ms
        if is_young or segment.next_offset > high_watermark:
            break
        clean_offsets = max(0, clean_to - segment.base_offset)
        clean_part = segment.size_bytes * clean_offsets // (segment.next_offset - segment.base_offset)
        clean_bytes += clean_part
        dirty_bytes += segment.size_bytes - clean_part
        end_offset = segment.next_offset
        if has_max_lag:
            firsts += [header.base_timestamp for _, header in islice(segment.walk(), 1)]
    return Dirt(end_offset, clean_bytes, dirty_bytes, min((ms for ms in firsts if ms >= 0), default=None))
