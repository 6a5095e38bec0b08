"""Records drawn for the pipeline's codec tests, and the rows that they have to become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from pipeline.records.decode import RECORD_COLUMNS, decode_records, record_schema
from springtide.wire.records import NewRecord

TOPIC, PARTITION = "orders", 3
Row = dict[str, Any]

new_records = st.lists(
    st.builds(
        NewRecord,
        key=st.none() | st.binary(max_size=40),
        value=st.none() | st.binary(max_size=100),
        timestamp=st.integers(0, 2**42) | st.integers(0, 253_402_300_799_999),
        headers=st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=10,
)
"""Nulls, empties, times that go back."""


def rows_of(
    records: Sequence[NewRecord], *, base_offset: int = 0, append_time: int | None = None
) -> list[Row]:
    """Return the rows that `decoded` has to give for a batch of these records."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": TOPIC,
            "partition": PARTITION,
            "offset": base_offset + index,
            "timestamp": record.timestamp if append_time is None else append_time,
            "timestampType": 0 if append_time is None else 1,
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        for index, record in enumerate(records)
    ]


def decoded(data: bytes, *, columns: Sequence[str] = RECORD_COLUMNS, **options: Any) -> list[Row]:
    """All rows of the fetched bytes, their timestamps in Unix milliseconds. Arrow has checked every array."""
    rows: list[Row] = []
    for batch in decode_records(data, topic=TOPIC, partition=PARTITION, columns=columns, **options):
        batch.validate(full=True)
        assert batch.schema.equals(record_schema(columns))
        assert batch.num_rows
        rows += as_milliseconds(batch).to_pylist()
    return rows


def as_milliseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with its timestamp as a number: Python's datetime ends in the year 9999."""
    if "timestamp" not in batch.schema.names:
        return batch
    place = batch.schema.get_field_index("timestamp")
    microseconds = batch.column(place).cast(pa.int64()).to_pylist()
    assert all(time % 1000 == 0 for time in microseconds)
    return batch.set_column(place, "timestamp", pa.array([time // 1000 for time in microseconds], pa.int64()))
