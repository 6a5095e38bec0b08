"""Where the records of a batch stand: what compaction reads of them, without an object for each.

A place is a record's offset and the position in its batch's payload at which it begins, in one number: places
rise with offsets, and a record is found again by its place without reading those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from .compression import CorruptCompressedData, DecompressedTooLarge
from .record_batch import BatchHeader, CorruptBatch
from .records import (
    VARINT_SHIFT_MAX,
    VARLONG_SHIFT_MAX,
    BadRecords,
    open_payload,
    read_varint,
    record_end,
    write_varint,
)

READ_ANY = 16
"""Records that are read one by one before the others are tried as like them: trying takes as long as two."""
POSITION_BITS = 28
PAYLOAD_BYTES_MAX = 2**POSITION_BITS
"""Cap of one batch's records when they are opened, 256 MiB."""
POSITION_OF_NONE = PAYLOAD_BYTES_MAX - 1
"""No record begins there: it takes several bytes."""
KEY_SIZES = [PAYLOAD_BYTES_MAX if first & 0x81 else first >> 1 for first in range(256)]
"""The size of a key by the one byte that tells it; beyond every record where that is null or takes more."""


class RecordSpans(NamedTuple):
    """The fields that compaction needs of each record of a batch, in its order. deltas: offsets, relative to
    the batch's. positions: where it begins in the payload."""

    base_offset: int
    deltas: list[int]
    positions: list[int]
    keys: list[bytes | None]

    @property
    def places(self) -> list[int]:
        base_offset = self.base_offset
        return [
            base_offset + delta << POSITION_BITS | position
            for delta, position in zip(self.deltas, self.positions, strict=True)
        ]


def place_of(offset: int) -> int:
    """Return the lowest place that a record at this offset can have."""
    return offset << POSITION_BITS


def offset_of(place: int) -> int:
    """Return the offset of the record at this place."""
    return place >> POSITION_BITS


def read_payload(view: memoryview, header: BatchHeader, *, bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
    """Return the bytes of the records, decompressed, of the batch that begins `view`.

    Raise CorruptBatch if they can't be opened within `bytes_max`. The CRC is not checked: the caller
    reads its own log.
    """
    try:
        payload = open_payload(view, header, bytes_max)
    except (CorruptCompressedData, DecompressedTooLarge) as error:
        raise CorruptBatch(str(error) or type(error).__name__) from error
    if len(payload) > bytes_max:
        raise CorruptBatch(f"records of {len(payload)} bytes")
    return bytes(payload)


def read_spans(payload: bytes, header: BatchHeader) -> RecordSpans:
    """Return where the records stand in a batch's payload.

    Raise CorruptBatch if it breaks the record layout, or offset deltas do not rise, or leave the header's
    range. Timestamps, values and headers are not looked at.
    """
    try:
        return _spans(payload, header)
    except BadRecords as error:
        raise CorruptBatch(str(error)) from error
    except IndexError:
        raise CorruptBatch("a record exceeds the batch") from None


def copy_records(payload: bytes, places: Sequence[int]) -> bytes:
    """Return the bytes of the records at these places, which `read_spans` has found."""
    found: list[bytes] = []
    for place in places:
        start = place & POSITION_OF_NONE
        if (low := payload[start]) < 0x80:
            end = start + 1 + (low >> 1)
        elif (high := payload[start + 1]) < 0x80:
            end = start + 2 + (low >> 1 & 0x3F | high << 6)
        else:
            _, end = record_end(payload, start)
        found.append(payload[start:end])
    return b"".join(found)


def largest_timestamp_delta(payload: bytes, places: Sequence[int]) -> int:
    """Return that of the records at these places, at least one, which `read_spans` has found. Raise
    CorruptBatch if one is too long: `read_spans` only passed over them."""
    deltas: list[int] = []
    try:
        for place in places:
            position = place & POSITION_OF_NONE
            while payload[position] >= 0x80:  # the length
                position += 1
            if (low := payload[position + 2]) < 0x80:
                delta = low >> 1 ^ -(low & 1)
            else:
                _, delta = read_varint(payload, position + 2, len(payload), VARLONG_SHIFT_MAX)
            deltas.append(delta)
    except BadRecords as error:
        raise CorruptBatch(str(error)) from error
    return max(deltas)


def has_value(payload: bytes, place: int) -> bool:
    """Return whether the record at this place, which `read_spans` has found, has a value that is not null."""
    position, end = record_end(payload, place & POSITION_OF_NONE)
    position += 1  # attributes
    while payload[position] >= 0x80:  # the timestamp's delta
        position += 1
    position, _ = read_varint(payload, position + 1, end, VARINT_SHIFT_MAX)
    position, key_bytes = read_varint(payload, position, end, VARINT_SHIFT_MAX)
    return not payload[position + max(0, key_bytes)] & 1


def value_of(payload: bytes, place: int) -> bytes | None:
    """Return the value of the record at this place, which `read_spans` has found. Raise CorruptBatch if it
    exceeds its record: `read_spans` has not looked at it."""
    try:
        position, end = record_end(payload, place & POSITION_OF_NONE)
        position += 1  # attributes
        for _ in ("the timestamp's delta", "the offset's"):
            while payload[position] >= 0x80:
                position += 1
            position += 1
        position, key_bytes = read_varint(payload, position, end, VARINT_SHIFT_MAX)
        position, value_bytes = read_varint(payload, position + max(0, key_bytes), end, VARINT_SHIFT_MAX)
    except BadRecords as error:
        raise CorruptBatch(str(error)) from error
    if value_bytes < 0:
        return None
    if value_bytes > end - position:
        raise CorruptBatch(f"a value of {value_bytes} bytes exceeds its record")
    return payload[position : position + value_bytes]


def _spans(payload: bytes, header: BatchHeader) -> RecordSpans:
    """Raise BadRecords, IndexError. A few records are read one by one; then as many as are laid out like the
    last of those, which are nearly all of a large batch."""
    spans = RecordSpans(header.base_offset, [], [], [])
    position, count = 0, header.record_count
    while (number := len(spans.keys)) < count:
        position = _read_any(payload, position, header, spans, min(count, number + READ_ANY))
        if len(spans.keys) < count:
            position = _read_alike(payload, position, header, spans)
    if position != len(payload):
        raise BadRecords("bytes after the last record")
    return spans


def _read_any(payload: bytes, position: int, header: BatchHeader, spans: RecordSpans, until: int) -> int:
    """Add the records up to number `until`, of any layout; return where the next one begins."""
    _, deltas, positions, keys = spans
    last_delta, size_bytes = header.last_offset_delta, len(payload)
    before = deltas[-1] if deltas else -1
    for _ in range(len(deltas), until):
        start = position
        if (low := payload[position]) < 0x80:
            end = position + 1 + (low >> 1 ^ -(low & 1))
            position += 2  # the length, and attributes
        elif (high := payload[position + 1]) < 0x80:
            end = position + 2 + ((low >> 1 & 0x3F | high << 6) ^ -(low & 1))
            position += 3
        else:
            position, length = read_varint(payload, position, size_bytes, VARINT_SHIFT_MAX)
            end = position + length
            position += 1
        if not position <= end <= size_bytes:
            raise BadRecords(f"record length {end - position + 1} in a batch of {size_bytes}")
        while payload[position] >= 0x80:  # the timestamp's delta
            position += 1
        if (low := payload[position + 1]) < 0x80:
            position += 2
            delta = low >> 1 ^ -(low & 1)
        elif (high := payload[position + 2]) < 0x80:
            position += 3
            delta = (low >> 1 & 0x3F | high << 6) ^ -(low & 1)
        else:
            position, delta = read_varint(payload, position + 1, end, VARINT_SHIFT_MAX)
        if not before < delta <= last_delta:
            raise BadRecords(f"offset delta {delta} after {before}, the header says up to {last_delta}")
        before = delta
        deltas.append(delta)
        positions.append(start)
        if (low := payload[position]) < 0x80 and not low & 1:
            start = position + 1
            position = start + (low >> 1)
            keys.append(payload[start:position])
        else:
            position, length = read_varint(payload, position, end, VARINT_SHIFT_MAX)
            if length >= 0:
                keys.append(payload[position : position + length])
                position += length
            elif length == -1:
                keys.append(None)
            else:
                raise BadRecords(f"key length {length}")
        if position >= end:  # the value's length is due
            raise BadRecords("key exceeds its record")
        position = end
    return position


def _read_alike(payload: bytes, position: int, header: BatchHeader, spans: RecordSpans) -> int:
    """Add the records that have varints of the same sizes as the last one before them, as far as it goes;
    return where the next one begins. A varint of a byte or two is looked up."""
    _, deltas, positions, keys = spans
    sizes = _varint_sizes(payload, positions[-1])
    if max(sizes) > 2:
        return position
    layout = Struct(">{}x{}{}B".format(*("BH"[size - 1] for size in sizes)))
    known_lengths, known_timestamps, known_deltas = map(_varints_of, sizes)
    unpack, size_bytes, length_bytes = layout.unpack_from, layout.size, sizes[0]
    before, last_delta = deltas[-1], header.last_offset_delta
    add_delta, add_position, add_key = deltas.append, positions.append, keys.append
    try:
        for _ in range(len(keys), header.record_count):
            length, timestamp, delta, key_bytes = unpack(payload, position)
            end = position + length_bytes + known_lengths[length]
            delta = known_deltas[delta]
            key = position + size_bytes
            value = key + KEY_SIZES[key_bytes]
            if value >= end or known_timestamps[timestamp] < 0 or not before < delta <= last_delta:
                break
            before = delta
            add_delta(delta)
            add_position(position)
            add_key(payload[key:value])
            position = end
    except (IndexError, StructError):
        pass  # beyond the batch
    return position


def _varint_sizes(payload: bytes, position: int) -> list[int]:
    """Return the sizes of a record's length, timestamp delta and offset delta."""
    sizes: list[int] = []
    for before in (0, 1, 0):  # attributes
        start = position = position + before
        while payload[position] >= 0x80:
            position += 1
        position += 1
        sizes.append(position - start)
    return sizes


@cache
def _varints_of(size_bytes: int) -> list[int]:
    """Return the value of each varint of one or two bytes, read as a number; -1 where it is none of that
    size, or negative."""
    found = [-1] * 256**size_bytes
    for value in range(64) if size_bytes == 1 else range(64, 8_192):
        encoded = bytearray()
        write_varint(encoded, value)
        found[int.from_bytes(encoded)] = value
    return found
