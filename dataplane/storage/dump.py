"""A segment file, or a divergent copy, as dicts: what `dataplane dump-log` prints.

Reads only, believes nothing, and says where and why it stopped instead of raising.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dataplane.storage.disk import File
from dataplane.storage.scan import ScanStop, SegmentScan
from springtide.wire.record_batch import CorruptBatch
from springtide.wire.records import iter_records


def dump_segment(file: File, *, with_records: bool = False) -> Iterator[dict[str, Any]]:
    """One dict a batch ({"batch": {...}}, with "records" if asked), then one for a bad end ({"stopped":
    {...}}), if it has one. Keys and values are bytes: the caller renders them."""
    scan = SegmentScan(file, next_offset=0, leader_epoch=-1)
    for position, header in scan:
        batch = header._asdict() | {
            "position": position,
            "size_bytes": header.size_bytes,
            "last_offset": header.last_offset,
            "last_sequence": header.last_sequence,
        }
        entry: dict[str, Any] = {"batch": batch}
        if with_records:
            try:
                view = memoryview(file.pread(header.size_bytes, position))
                entry["records"] = [record._asdict() for record in iter_records(view)]
            except CorruptBatch as error:
                entry["records_error"] = error.reason
        yield entry
    if scan.stop is not ScanStop.END:
        yield {
            "stopped": {
                "reason": scan.stop.value,
                "position": scan.position,
                "bytes_left": scan.size_bytes - scan.position,
            }
        }
