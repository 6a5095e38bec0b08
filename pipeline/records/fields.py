"""The fields of records whose spans are known, column by column.

A record (KIP-98), after its length: attributes byte, timestamp delta varlong, offset delta varint, key
length varint and key, value length varint and value, header count varint, headers. Length -1 is null.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .spans import Malformed, binary_column, refuse_first
from .varints import Bools, Int64s, Payload, read_varints, read_varlongs

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))

_HEADER_BYTES_MIN = 2
_VARINT_SHIFT_MAX = 28
_ROUND_ROWS_MIN = 24
"""Fewer records with headers left are walked one by one."""


class Fields(NamedTuple):
    """The fields of records, a row a record. A null's span is empty; `*_is_null` is None if no row is
    null."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key_start: Int64s
    key_end: Int64s
    key_is_null: Bools | None
    value_start: Int64s
    value_end: Int64s
    value_is_null: Bools | None
    header_count: Int64s
    headers_start: Int64s
    end: Int64s

    def picked(self, which: slice | Bools) -> Fields:
        """Return only these rows."""
        if isinstance(which, slice) and which == slice(0, len(self.end)):
            return self
        return Fields._make(None if column is None else column[which] for column in self)


def read_fields(payload: Payload, starts: Int64s, ends: Int64s) -> Fields:
    """Return the fields of the records in these spans. Raise Malformed unless each record fills its span.

    Only `header_column` reads the headers; here their bytes must have room for the count.
    """
    timestamp_delta, at, bad = read_varlongs(payload, starts + 1)
    refuse_first(bad, "timestamp delta runs too long")
    offset_delta, at, bad = read_varints(payload, at)
    refuse_first(bad, "offset delta runs too long")
    key_start, key_end, key_is_null = _sized(payload, at, "key")
    value_start, value_end, value_is_null = _sized(payload, key_end, "value")
    header_count, headers_start, bad = read_varints(payload, value_end)
    refuse_first(bad, "header count runs too long")
    # Lengths are not negative, so no position before this one was behind it.
    rest = ends - headers_start
    refuse_first(rest < 0, "fields are longer than their record")
    refuse_first(
        (header_count < 0) | (header_count * _HEADER_BYTES_MIN > rest), "header count exceeds its record"
    )
    refuse_first((header_count == 0) & (rest != 0), "record is longer than its fields")
    return Fields(
        timestamp_delta,
        offset_delta,
        key_start,
        key_end,
        key_is_null,
        value_start,
        value_end,
        value_is_null,
        header_count,
        headers_start,
        ends,
    )


def header_column(payload: Payload, data: pa.Buffer, fields: Fields) -> pa.Array:
    """Return the headers as Spark's Kafka source does: array<struct<key: string, value: binary>>, null where
    a record has none. Raise Malformed for a null key, one that is not UTF-8, or wrong lengths.

    Header j of all records that have one is read in round j.
    """
    counts = fields.header_count
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    flat = _FlatHeaders(int(offsets[-1]))
    order = np.argsort(-counts, kind="stable")
    descending = counts[order]
    at = fields.headers_start[order]
    done = int(descending[_ROUND_ROWS_MIN - 1]) if len(counts) >= _ROUND_ROWS_MIN else 0
    for index, active in enumerate(np.searchsorted(-descending, -np.arange(done)).tolist()):
        rows = order[:active]
        at[:active] = flat.read_round(payload, at[:active], offsets[rows] + index, rows)
    left = int(np.searchsorted(-descending, -done))
    for place, row in enumerate(order[:left].tolist()):
        first, last = int(offsets[row]) + done, int(offsets[row + 1])
        rest = payload.octets[int(at[place]) : int(fields.end[row])].tobytes()
        at[place] = flat.read_rest(rest, int(at[place]), slice(first, last), row)
    ends_at = np.empty(len(at), np.int64)
    ends_at[order] = at
    refuse_first(ends_at != fields.end, "headers do not fill their record")
    keys = binary_column(data, flat.key_start, flat.key_end, None)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:
        raise Malformed(_first_not_utf8(keys, offsets), "header key is not UTF-8") from None
    values = binary_column(data, flat.value_start, flat.value_end, flat.value_is_null)
    structs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), structs, type=HEADERS_TYPE, mask=pa.array(counts == 0)
    )


class _FlatHeaders:
    """The spans of all headers, record after record."""

    __slots__ = ("key_end", "key_start", "value_end", "value_is_null", "value_start")

    def __init__(self, count: int) -> None:
        self.key_start = np.empty(count, np.int64)
        self.key_end = np.empty(count, np.int64)
        self.value_start = np.empty(count, np.int64)
        self.value_end = np.empty(count, np.int64)
        self.value_is_null = np.zeros(count, np.bool_)

    def read_round(self, payload: Payload, at: Int64s, places: Int64s, rows: Int64s) -> Int64s:
        try:
            key_start, key_end, key_is_null = _sized(payload, at, "header key")
            refuse_first(key_is_null, "header key is null")
            value_start, value_end, value_is_null = _sized(payload, key_end, "header value")
        except Malformed as error:
            raise Malformed(int(rows[error.row]), error.reason) from None
        self.key_start[places], self.key_end[places] = key_start, key_end
        self.value_start[places], self.value_end[places] = value_start, value_end
        if value_is_null is not None:
            self.value_is_null[places] = value_is_null
        return value_end

    def read_rest(self, data: bytes, at: int, places: slice, row: int) -> int:
        """Read the headers at `places`, the rest of one record: `data`, which begins at `at`. Return their
        end.

        A hostile record has a million headers, and a round of one row costs as much as one of a hundred.
        """
        position = 0
        spans: list[tuple[int, int, int, int, bool]] = []
        try:
            for _ in range(places.stop - places.start):
                size, key = _varint(data, position)
                key_end = key + size
                if size < 0:
                    raise Malformed(
                        row, "header key is null" if size == -1 else "header key length is negative"
                    )
                size, value = _varint(data, key_end)
                if size < -1:
                    raise Malformed(row, "header value length is negative")
                position = value + max(size, 0)
                spans.append((key, key_end, value, position, size < 0))
        except IndexError:
            raise Malformed(row, "headers do not fill their record") from None
        except OverflowError:
            raise Malformed(row, "header length runs too long") from None
        columns = np.array(spans, np.int64).T
        for column, values in zip(
            (self.key_start, self.key_end, self.value_start, self.value_end), columns, strict=False
        ):
            column[places] = values + at
        self.value_is_null[places] = columns[4] != 0
        return at + position


def _sized(payload: Payload, at: Int64s, what: str) -> tuple[Int64s, Int64s, Bools | None]:
    """Return (start, end, is null) of bytes with their length in front; an end may lie anywhere behind its
    start."""
    lengths, start, bad = read_varints(payload, at)
    refuse_first(bad, f"{what} length runs too long")
    smallest = int(lengths.min()) if len(lengths) else 0
    if smallest >= 0:
        return start, start + lengths, None
    refuse_first(lengths < -1, f"{what} length is negative")
    return start, start + np.maximum(lengths, 0), lengths < 0


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return (value, position after it). Raise IndexError at the end of the data, OverflowError beyond an
    int32."""
    raw = shift = 0
    while (byte := data[position]) > 0x7F and shift < _VARINT_SHIFT_MAX:
        raw |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    raw |= byte << shift
    if raw >> 32:
        raise OverflowError
    return (raw >> 1) ^ -(raw & 1), position + 1


def _first_not_utf8(keys: pa.Array, offsets: Int64s) -> int:
    """Return the row of the first key that is not UTF-8."""
    for place, key in enumerate(keys):
        try:
            key.as_py().decode()
        except UnicodeDecodeError:
            return int(np.searchsorted(offsets, place, side="right")) - 1
    raise AssertionError("Arrow refused keys that are UTF-8")
