"""Identity rows, by which two records are compared: a row of small fixed columns for each record. Pure.

Two records are the same if they have the same producer id, epoch and sequence, or else the same key, value,
headers and timestamp (rules in verdicts.py). Contents are compared by a hash of 128 bits, so the rows that
Spark shuffles are small.

A sequence is the batch's first one plus the record's distance from the batch's first offset, also in
compacted batches. Where the broker stamps records (LogAppendTime), a record that is sent again has another
timestamp: timestamps are left out there.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.records.contents import contents, hashes
from pipeline.records.decode import decode_records
from pipeline.records.headers import BatchHeaders, scan_headers
from pipeline.records.isolation import CONTROL_COMMIT, control_type
from pipeline.records.rows import record_rows
from pipeline.records.varints import Bools, Int64s
from pipeline.salvage.marks import marked, without_marks
from pipeline.sink.identity import DERIVED
from springtide.wire.compression import Buffer
from springtide.wire.record_batch import SEQUENCE_MAX

NO_TIMESTAMP = -1
"""Also for records that the broker stamped."""
_US_PER_MS = 1000
_COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")

IDENTITY_SCHEMA = pa.schema(
    [
        ("target", pa.int32()),
        ("copy", pa.int32()),
        ("copy_first", pa.int64()),
        ("is_committed", pa.bool_()),
        ("leader_epoch", pa.int32()),
        ("offset", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("sequence", pa.int32()),
        ("content", pa.binary()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("is_marked", pa.bool_()),
        ("transaction", pa.int32()),
    ]
)
"""Identity rows. target: which partition. copy, copy_first: which copy it stands in and the first offset of
that, -1 in the log. content, key: 16 bytes of hash; key only where it is asked for, and null for a null
key. timestamp: Unix ms, or NO_TIMESTAMP. is_marked: the record was merged by an earlier run. transaction: see
TransactionPart; a marker's row has no contents."""


class TransactionPart(IntEnum):
    """What a row is to a transaction of its producer."""

    NONE = -1
    RECORD = 0
    COMMIT = 1
    ABORT = 2


class RecordsPlace(NamedTuple):
    """The place of some records' bytes. `high_watermark`: records below it count as committed."""

    target: int
    copy: int = -1
    copy_first: int = -1
    high_watermark: int = 2**63 - 1


class TimeWindow(NamedTuple):
    """Timestamps in milliseconds, both inclusive; other records are left out."""

    first_ms: int
    last_ms: int


def identity_rows(
    data: Buffer,
    place: RecordsPlace,
    *,
    first_offset: int,
    end_offset: int,
    with_keys: bool = False,
    window: TimeWindow | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield IDENTITY_SCHEMA of the records of `data` with these offsets, and of the markers that end
    transactions, but not of records outside of `window` (records that brokers stamped are always in). Raises
    DamagedBatch."""
    headers = scan_headers(data)
    for rows in decode_records(
        data,
        headers,
        topic="",
        partition=0,
        columns=_COLUMNS,
        first_offset=first_offset,
        end_offset=end_offset,
    ):
        some = rows if window is None else rows.filter(pa.array(_within(rows, window)))
        if some.num_rows:
            yield _identified(some, headers, place, with_keys=with_keys)
    markers = list(_markers(memoryview(data), headers, place, first_offset, end_offset))
    if markers:
        yield pa.RecordBatch.from_pylist(markers, schema=IDENTITY_SCHEMA)


def batch_of(headers: BatchHeaders, offsets: Int64s) -> Int64s:
    """Return the batch's index for each record; `offsets` are of records in these batches."""
    found: Int64s = np.searchsorted(headers.base_offset, offsets, side="right") - 1
    return found


def content_hashes(rows: pa.RecordBatch) -> pa.Array:
    """Return 16 bytes (BLAKE2) of each row's key, value and headers, without the mark."""
    kept = pa.RecordBatch.from_arrays(
        [rows["key"], rows["value"], rows["headers"]], names=["key", "value", "headers"]
    )
    return hashes(contents(record_rows(kept, timestamp_ms=0, first_row=0), with_timestamps=False))


def timestamps_ms(rows: pa.RecordBatch) -> Int64s:
    """Return Unix milliseconds; NO_TIMESTAMP for records that the broker stamped."""
    microseconds: Int64s = rows["timestamp"].cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.where(_is_stamped(rows), NO_TIMESTAMP, microseconds // _US_PER_MS)


def _within(rows: pa.RecordBatch, window: TimeWindow) -> Bools:
    times = timestamps_ms(rows)
    return _is_stamped(rows) | ((times >= window.first_ms) & (times <= window.last_ms))


def _is_stamped(rows: pa.RecordBatch) -> Bools:
    stamped: Bools = rows["timestampType"].to_numpy(zero_copy_only=False) == 1
    return stamped


def _identified(
    rows: pa.RecordBatch, headers: BatchHeaders, place: RecordsPlace, *, with_keys: bool
) -> pa.RecordBatch:
    count = rows.num_rows
    offsets: Int64s = rows["offset"].to_numpy(zero_copy_only=False)
    batch = batch_of(headers, offsets)
    producer_id = headers.producer_id[batch]
    base_sequence = headers.base_sequence[batch].astype(np.int64)
    sequence = (base_sequence + offsets - headers.base_offset[batch]) & SEQUENCE_MAX
    sequence = np.where(base_sequence < 0, -1, sequence)
    is_marked = np.zeros(count, np.bool_)
    if (producer_id >= DERIVED).any():  # merged records have a producer id of that kind, and few others have
        is_marked = marked(rows["headers"]) & (producer_id >= DERIVED)
        if is_marked.any():
            rows = rows.set_column(
                rows.schema.get_field_index("headers"), "headers", without_marks(rows["headers"])
            )
    columns = {
        "target": _same(place.target, count, pa.int32()),
        "copy": _same(place.copy, count, pa.int32()),
        "copy_first": _same(place.copy_first, count, pa.int64()),
        "is_committed": pa.array(offsets < place.high_watermark),
        "leader_epoch": pa.array(headers.leader_epoch[batch]),
        "offset": pa.array(offsets),
        "producer_id": pa.array(producer_id),
        "producer_epoch": pa.array(headers.producer_epoch[batch].astype(np.int32)),
        "sequence": pa.array(sequence.astype(np.int32)),
        "content": content_hashes(rows),
        "timestamp": pa.array(timestamps_ms(rows)),
        "key": hashes(rows["key"]) if with_keys else pa.nulls(count, pa.binary()),
        "is_marked": pa.array(is_marked),
        "transaction": pa.array(
            np.where(
                headers.is_transactional[batch], int(TransactionPart.RECORD), int(TransactionPart.NONE)
            ).astype(np.int32)
        ),
    }
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in IDENTITY_SCHEMA.names], schema=IDENTITY_SCHEMA
    )


def _markers(
    data: memoryview, headers: BatchHeaders, place: RecordsPlace, first_offset: int, end_offset: int
) -> Iterator[dict[str, object]]:
    is_marker = headers.is_control & headers.is_transactional
    is_wanted = (headers.base_offset >= first_offset) & (headers.base_offset < end_offset)
    for index in np.flatnonzero(is_marker & is_wanted).tolist():
        is_commit = control_type(data, headers, index) == CONTROL_COMMIT
        offset = int(headers.base_offset[index])
        yield {
            "target": place.target,
            "copy": place.copy,
            "copy_first": place.copy_first,
            "is_committed": offset < place.high_watermark,
            "leader_epoch": int(headers.leader_epoch[index]),
            "offset": offset,
            "producer_id": int(headers.producer_id[index]),
            "producer_epoch": int(headers.producer_epoch[index]),
            "sequence": -1,
            "timestamp": NO_TIMESTAMP,
            "is_marked": False,
            "transaction": int(TransactionPart.COMMIT if is_commit else TransactionPart.ABORT),
        }


def _same(value: int, count: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)
