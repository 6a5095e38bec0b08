"""The walk over the records of one batch that a leader makes before it believes anything of the batch.

`walk_records` is what the leader's path calls, and the one place where another walk with equal answers is
chosen. `walk_records_in_python` is the reference: no object per record, about a microsecond for each.

A record is sound where Kafka's DefaultRecord reads it and its LogValidator takes it, and three times more is
asked, which no stock client breaks and on which consumers differ:

- offset deltas count 0, 1, 2... (Kafka writes such batches anew, which would change what a producer sealed);
- a null has the length -1, never less;
- varints are those of 32 bits in at most five bytes, varlongs those of 64 bits in at most ten.

As in Kafka, varints may be longer than they have to be, attributes may have any value, and a header's key is
bytes that are not null: whether they are UTF-8 is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .compression import Buffer
from .record_batch import RECORD_BYTES_MIN
from .records import VARINT_SHIFT_MAX, VARLONG_SHIFT_MAX, BadRecords, read_varint

_LONG_LIMIT = 2**63


class RecordWalk(NamedTuple):
    """What the records of a batch say. error: 0 if they are sound, else 1, and the rest is 0.

    Timestamp deltas are relative to the batch's base timestamp, signed, of 64 bits.
    max_timestamp_offset_delta: that of the first record with the largest timestamp delta.
    """

    error: int
    min_timestamp_delta: int
    max_timestamp_delta: int
    max_timestamp_offset_delta: int


UNSOUND = RecordWalk(1, 0, 0, 0)


def walk_records_in_python(payload: Buffer, record_count: int, needs_keys: bool) -> RecordWalk:
    """Check the `record_count` records of a batch, decompressed, and return what they say of time.

    Refused are: fewer than one record, or more than the payload can hold; lengths that are negative or leave
    the payload; a record that does not end with its last field; offset deltas other than 0, 1, 2...; a null
    key if `needs_keys`; a header count or a header key's length below zero; bytes after the last record.
    """
    if record_count < 1 or record_count * RECORD_BYTES_MIN > len(payload):
        return UNSOUND
    try:
        return _walk(bytes(payload), record_count, needs_keys=needs_keys)
    except (BadRecords, IndexError):
        return UNSOUND


walk_records: Callable[[Buffer, int, bool], tuple[int, int, int, int]] = walk_records_in_python
"""The walk that the leader's path calls."""


def _walk(payload: bytes, record_count: int, *, needs_keys: bool) -> RecordWalk:
    """Raise BadRecords, IndexError. Positions only rise, so a field that leaves its record is found where the
    record has to end."""
    size_bytes = len(payload)
    position = least = most = most_at = 0
    for number in range(record_count):
        if (byte := payload[position]) < 0x80:
            start = position + 1
            end = start + (byte >> 1) if not byte & 1 else -1
        elif (high := payload[position + 1]) < 0x80:
            start = position + 2
            end = start + (byte >> 1 & 0x3F | high << 6) if not byte & 1 else -1
        else:
            start, end = _after_sized(payload, position, is_nullable=False)
        if not start < end <= size_bytes:
            return UNSOUND
        if (byte := payload[start + 1]) < 0x80:  # attributes stand before it
            position = start + 2
            delta = byte >> 1 ^ -(byte & 1)
        elif (high := payload[start + 2]) < 0x80:
            position = start + 3
            delta = (byte >> 1 & 0x3F | high << 6) ^ -(byte & 1)
        else:
            position, delta = read_varint(payload, start + 1, end, VARLONG_SHIFT_MAX)
            if not -_LONG_LIMIT <= delta < _LONG_LIMIT:
                return UNSOUND
        if delta > most or not number:
            most, most_at = delta, number
        if delta < least or not number:
            least = delta
        if (byte := payload[position]) < 0x80:
            position += 1
        elif (high := payload[position + 1]) < 0x80:
            position += 2
            byte = byte & 0x7F | high << 7
        else:
            position, offset_delta = read_varint(payload, position, end, VARINT_SHIFT_MAX)
            byte = offset_delta << 1 if offset_delta >= 0 else -1
        if byte != number << 1:
            return UNSOUND
        if (byte := payload[position]) < 0x80 and not byte & 1:  # the key: short, not null
            position += 1 + (byte >> 1)
        elif byte == 1 and not needs_keys:
            position += 1
        else:
            _, position = _after_sized(payload, position, is_nullable=not needs_keys)
        if (byte := payload[position]) < 0x80 and not byte & 1:  # the value likewise
            position += 1 + (byte >> 1)
        elif (high := payload[position + 1]) < 0x80 and byte > 1 and not byte & 1:
            position += 2 + (byte >> 1 & 0x3F | high << 6)
        else:
            _, position = _after_sized(payload, position, is_nullable=True)
        if payload[position]:
            position = _after_headers(payload, position, end)
        else:
            position += 1
        if position != end:
            return UNSOUND
    return RecordWalk(0, least, most, most_at) if position == size_bytes else UNSOUND


def _after_headers(payload: bytes, position: int, end: int) -> int:
    """Return the position after a record's headers, whose count stands at `position`."""
    position, count = read_varint(payload, position, end, VARINT_SHIFT_MAX)
    if not 0 <= count * 2 <= end - position:
        raise BadRecords(f"header count {count} exceeds its record")
    for _ in range(count):
        _, position = _after_sized(payload, position, is_nullable=False)
        _, position = _after_sized(payload, position, is_nullable=True)
    return position


def _after_sized(payload: bytes, position: int, *, is_nullable: bool) -> tuple[int, int]:
    """Return (position after the length that stands at `position`, position after what has that length)."""
    position, length = read_varint(payload, position, len(payload), VARINT_SHIFT_MAX)
    if length < (-1 if is_nullable else 0):
        raise BadRecords(f"length {length}")
    return position, position + max(0, length)
