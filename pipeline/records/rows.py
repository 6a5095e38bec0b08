"""Rows of any Arrow type that a Kafka sink accepts, as the parts of records.

Columns are found by name: key, value, headers, timestamp. Other columns are ignored, and a missing one is
null in every row. Strings become their UTF-8 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .cut import RECORD_OVERHEAD_MAX
from .varints import Bools, Int64s, Octets, Words, varint_sizes, write_varints, zigzag

_NO_HEADERS = b"\0"
_OFFSET_BYTES = 4
_MS_PER_SECOND = 1000
_UNITS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_INT64_MAX = 2**63 - 1


class BadRow(Exception):
    """Row `row`, counted from the beginning of its partition's stream, can't become a record."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row = row
        self.reason = reason


class BadColumn(TypeError):
    """The sink does not accept a column's type."""


class RecordRows(NamedTuple):
    """The parts of records, a row a record. The arrays are of Arrow's type binary."""

    key: pa.Array
    value: pa.Array
    tail: pa.Array
    """A record's end: the count of its headers, and the headers."""
    timestamp_ms: Int64s
    size_max: Int64s
    """The most bytes that each record can take."""

    def sliced(self, first: int, last: int) -> RecordRows:
        """Return the rows `first` up to `last`, exclusive."""
        count = last - first
        return RecordRows(
            self.key.slice(first, count),
            self.value.slice(first, count),
            self.tail.slice(first, count),
            self.timestamp_ms[first:last],
            self.size_max[first:last],
        )

    def __bool__(self) -> bool:
        return len(self.size_max) > 0


def joined(parts: list[RecordRows]) -> RecordRows:
    """Return the rows of all parts, at least one, one after another."""
    if len(parts) == 1:
        return parts[0]
    return RecordRows(
        pa.concat_arrays([part.key for part in parts]),
        pa.concat_arrays([part.value for part in parts]),
        pa.concat_arrays([part.tail for part in parts]),
        np.concatenate([part.timestamp_ms for part in parts]),
        np.concatenate([part.size_max for part in parts]),
    )


def record_rows(rows: pa.RecordBatch, *, timestamp_ms: int, first_row: int) -> RecordRows:
    """Return `rows` as records. `timestamp_ms` is given to rows without a timestamp; `first_row` is the
    number of the first row in its stream, for errors.

    Raise BadColumn for a type that is not accepted, BadRow for a header without a key or a negative
    timestamp.
    """
    key, value = _bytes_column(rows, "key"), _bytes_column(rows, "value")
    tail = _tails(rows, first_row)
    size_max = RECORD_OVERHEAD_MAX + _sized(key) + _sized(value) + lengths(tail)
    return RecordRows(key, value, tail, _timestamps(rows, timestamp_ms, first_row), size_max)


def lengths(array: pa.Array) -> Int64s:
    """Return the bytes of each value of a binary array, -1 for a null, as on the wire."""
    if not len(array):
        return np.empty(0, np.int64)
    _, offsets, _ = array.buffers()
    sizes = np.diff(np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * _OFFSET_BYTES)).astype(
        np.int64
    )
    if array.null_count:
        sizes[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return sizes


def varint_column(*columns: Words | None) -> pa.Array:
    """Return a binary array whose rows are varints, one of each column in turn; None stands for a zero byte.

    At least one column is not None, and all have one length.
    """
    sizes = [None if column is None else varint_sizes(column) for column in columns]
    count = max(len(column) for column in columns if column is not None)
    total = np.zeros(count, np.int64)
    for size in sizes:
        total += 1 if size is None else size
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(total, out=offsets[1:])
    out: Octets = np.zeros(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for column, size in zip(columns, sizes, strict=True):
        if column is None or size is None:
            at += 1
            continue
        write_varints(out, at, column, size)
        at += size
    return _binary_array(offsets, pa.py_buffer(out))


def concatenated(*arrays: pa.Array) -> pa.Array:
    """Return each row's bytes one after another; a null adds none."""
    return pc.binary_join_element_wise(
        *arrays, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


def _sized(array: pa.Array) -> Int64s:
    """Return the bytes of each value with its length in front."""
    sizes = lengths(array)
    return varint_sizes(zigzag(sizes)) + np.maximum(sizes, 0)


def _binary_array(offsets: Int64s, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data]
    )


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    place = rows.schema.get_field_index(name)
    return None if place < 0 else rows.column(place)


def _bytes_column(rows: pa.RecordBatch, name: str) -> pa.Array:
    column = _column(rows, name)
    if column is None:
        return pa.nulls(rows.num_rows, pa.binary())
    return _as_bytes(column, name)


def _as_bytes(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if kind == pa.binary():
        return column
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_null(kind)
    ):
        raise BadColumn(f"column {name} must be string or binary, not {kind}")
    return column.cast(pa.binary())


def _timestamps(rows: pa.RecordBatch, timestamp_ms: int, first_row: int) -> Int64s:
    column = _column(rows, "timestamp")
    if column is None or pa.types.is_null(column.type):
        return np.full(rows.num_rows, timestamp_ms, np.int64)
    if not pa.types.is_timestamp(column.type):
        raise BadColumn(f"column timestamp must be a timestamp, not {column.type}")
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    times: Int64s = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    unit = column.type.unit
    if unit == "s":
        _refuse(times > _INT64_MAX // _MS_PER_SECOND, first_row, "timestamp is beyond what a record can say")
        times = np.where(times < 0, times, times * _MS_PER_SECOND)
    else:
        times = times // _UNITS_PER_MS[unit]
    _refuse(times < 0, first_row, "timestamp is before 1970, which Kafka's records cannot say")
    return np.where(is_null, timestamp_ms, times)


def _tails(rows: pa.RecordBatch, first_row: int) -> pa.Array:
    column = _column(rows, "headers")
    if column is None or pa.types.is_null(column.type) or column.null_count == len(column):
        return pa.repeat(pa.scalar(_NO_HEADERS, pa.binary()), rows.num_rows)
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not _is_header(kind.value_type):
        raise BadColumn(f"column headers must be array<struct<key: string, value: binary>>, not {kind}")
    counts: Int64s = (
        pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    row_of = np.repeat(np.arange(len(counts)), counts)
    headers = column.flatten()
    names = _as_bytes(pc.struct_field(headers, "key"), "headers.key")
    values = _as_bytes(pc.struct_field(headers, "value"), "headers.value")
    if names.null_count:
        has_no_key = names.is_null().to_numpy(zero_copy_only=False)
        raise BadRow(first_row + int(row_of[int(has_no_key.argmax())]), "header without a key")
    flat = concatenated(
        varint_column(zigzag(lengths(names))), names, varint_column(zigzag(lengths(values))), values
    )
    # The headers of a row stand together: their bytes are one span of the flat ones.
    ends = np.zeros(len(flat) + 1, np.int64)
    np.cumsum(lengths(flat), out=ends[1:])
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    of_rows = _binary_array(ends[bounds], flat.buffers()[2] or pa.py_buffer(b""))
    return concatenated(varint_column(zigzag(counts)), of_rows)


def _is_header(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and {"key", "value"} <= set(kind.names)


def _refuse(is_bad: Bools, first_row: int, reason: str) -> None:
    if is_bad.any():
        raise BadRow(first_row + int(is_bad.argmax()), reason)
