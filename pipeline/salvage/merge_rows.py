"""Rows that a merge gives to the sink: a partition's planned records, each with a mark of where it stood.

Runs in executors, without Spark. Plan and copies never change, so every attempt gives the same rows in the
same order, as the sink's exactly-once needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import CopyUnreadable
from pipeline.records.decode import decode_records
from pipeline.records.fields import HEADERS_TYPE
from pipeline.records.headers import DamagedBatch, scan_headers
from pipeline.records.varints import Bools, Int64s
from pipeline.salvage.identity import batch_of
from pipeline.salvage.marks import with_marks
from pipeline.salvage.merge_plan import Span, TargetPlan, spans
from pipeline.salvage.reading import CopyReader

_COLUMNS = ("key", "value", "offset", "timestamp", "headers")

MERGE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
"""The sink's columns. A timestamp before 1970, which no record can have, is null: the sink writes the current
time."""


def merge_rows(reader: CopyReader, target: TargetPlan) -> Iterator[pa.RecordBatch]:
    """Yield MERGE_SCHEMA, the target's runs in their order. Raises CopyUnreadable, ClientError."""
    for span in spans(target.runs):
        expected = sum(run.records for run in span.runs)
        for rows in _span_rows(reader, target, span):
            expected -= rows.num_rows
            yield rows
        if expected:
            raise CopyUnreadable(f"the copy {span.name} of broker {span.broker_id} lacks {expected} records")


def _span_rows(reader: CopyReader, target: TargetPlan, span: Span) -> Iterator[pa.RecordBatch]:
    topic, partition = target.where
    read = reader.read(
        span.broker_id, span.name, partition, start_offset=span.start_offset, end_offset=span.end_offset
    )
    firsts = np.array([run.first_offset for run in span.runs], np.int64)
    lasts = np.array([run.last_offset for run in span.runs], np.int64)
    leader_epoch = span.runs[0].leader_epoch
    start_offset = span.start_offset
    for piece in read:
        try:
            headers = scan_headers(piece.records)
            for rows in decode_records(
                piece.records,
                headers,
                topic=topic,
                partition=partition,
                columns=_COLUMNS,
                first_offset=start_offset,
                end_offset=span.end_offset,
            ):
                offsets: Int64s = rows["offset"].to_numpy(zero_copy_only=False)
                of_leader = headers.leader_epoch[batch_of(headers, offsets)] == leader_epoch
                wanted = rows.filter(pa.array(_planned(offsets, firsts, lasts) & of_leader))
                if wanted.num_rows:
                    yield _as_rows(wanted, target, leader_epoch=leader_epoch, broker_id=span.broker_id)
        except DamagedBatch as error:
            raise CopyUnreadable(f"the copy {span.name} of broker {span.broker_id}: {error}") from error
        start_offset = piece.next_offset


def _planned(offsets: Int64s, firsts: Int64s, lasts: Int64s) -> Bools:
    place = np.searchsorted(firsts, offsets, side="right") - 1
    planned: Bools = (place >= 0) & (offsets <= lasts[np.maximum(place, 0)])
    return planned


def _as_rows(
    rows: pa.RecordBatch, target: TargetPlan, *, leader_epoch: int, broker_id: int
) -> pa.RecordBatch:
    count = rows.num_rows
    offsets: Int64s = rows["offset"].to_numpy(zero_copy_only=False)
    epochs = np.full(count, leader_epoch, np.int64)
    time = rows["timestamp"]
    is_sayable = pc.greater_equal(time.cast(pa.int64()), 0)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(target.where.topic, pa.string()), count),
            pa.repeat(pa.scalar(target.where.partition, pa.int32()), count),
            rows["key"],
            rows["value"],
            with_marks(rows["headers"], offsets, epochs, broker_id=broker_id),
            pc.if_else(is_sayable, time, pa.scalar(None, time.type)),
        ],
        schema=MERGE_SCHEMA,
    )
