"""Zigzag varints, a whole column at a time.

Reading trusts nothing: a position may lie anywhere, a varint may have no end. No bytes make it raise; each
function also returns which rows were bad, and the caller names the batch.

A varint holds an int32 in at most five bytes, a varlong an int64 in at most ten (Kafka's ByteUtils). Longer
ones and values beyond the type are bad, where Java would drop the high bits in silence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from springtide.wire.compression import Buffer

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Octets = NDArray[np.uint8]
Words = NDArray[np.uint64]

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10
INT32_MAX = 2**31 - 1

_WORD_BYTES = 8
_STOP_BITS = np.uint64(0x8080808080808080)
_VALUE_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(1)
_FOLDS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
"""Groups of 7 bits in bytes become groups of 14 in pairs, of 28 in fours, of 56 in the word."""


class Payload:
    """Bytes that are read by columns of positions. The buffer must stay as it is meanwhile."""

    __slots__ = ("_pairs", "_words", "octets", "size")

    def __init__(self, buffer: Buffer | Octets) -> None:
        self.octets: Octets = np.frombuffer(buffer, np.uint8)
        self.size = len(self.octets)
        # Every position begins a word and a pair: overlapping, unaligned, nothing copied.
        self._words: Words = _overlapping(self.octets, "<u8")
        self._pairs: NDArray[np.uint16] = _overlapping(self.octets, "<u2")

    def words_at(self, at: Int64s) -> Words:
        """Return the eight bytes at each position, the first lowest; zeros stand for bytes after the end."""
        last = self.size - _WORD_BYTES
        words = self._words[np.clip(at, 0, last)] if last >= 0 else np.zeros(len(at), np.uint64)
        beyond = np.flatnonzero(at > last)
        if len(beyond):
            start = max(last, 0)
            tail = np.zeros(self.size - start + _WORD_BYTES, np.uint8)
            tail[: self.size - start] = self.octets[start:]
            words[beyond] = _overlapping(tail, "<u8")[np.clip(at[beyond], start, self.size) - start]
        return words.astype(np.uint64, copy=False)

    def record_steps(self, at: Int64s) -> Int64s:
        """Return the way from each record's length to the next one's; 0 for one of more than two bytes or a
        negative one.

        The inner loop of finding records: three calls for any number of positions.
        """
        last = self.size - 2
        if last < 0:
            return np.zeros(len(at), np.int64)
        return RECORD_STEPS.take(self._pairs[np.minimum(at, last)])


def _overlapping(octets: Octets, kind: str) -> NDArray[Any]:
    starts = len(octets) - np.dtype(kind).itemsize + 1
    return np.ndarray((starts,), kind, octets, strides=(1,)) if starts > 0 else np.empty(0, kind)


def _make_record_steps() -> Int64s:
    """Return the way to the next record by the two bytes that a record begins with."""
    pairs = np.arange(2**16)
    first, second = pairs & 0xFF, pairs >> 8
    is_short, is_long = first < 0x80, (first >= 0x80) & (second < 0x80)
    length = np.where(is_short, first, (first & 0x7F) | (second << 7)) >> 1
    is_negative = (first & 1) != 0
    return np.where((is_short | is_long) & ~is_negative, length + 1 + is_long, 0)


RECORD_STEPS = _make_record_steps()
"""Bytes from one record to the next, by the record's first two bytes (little endian); see record_steps."""


def read_varints(payload: Payload, at: Int64s) -> tuple[Int64s, Int64s, Bools | None]:
    """Return (values, positions after them, bad rows or None) of the varint at each position.

    A position outside the payload gives any value and a position after it that is outside too, which the
    caller finds when it checks the record's end.
    """
    octets = payload.octets
    first = octets.take(at, mode="clip")
    is_long = first >= 0x80
    if not is_long.any():
        raw = first.astype(np.int64)
        return (raw >> 1) ^ -(raw & 1), at + 1, None
    second = octets.take(at + 1, mode="clip")
    raw = first.astype(np.int64)
    raw += is_long * ((second.astype(np.int64) << 7) - 0x80)
    after = at + 1 + is_long
    rest = np.flatnonzero(is_long & (second >= 0x80))
    bad: Bools | None = None
    if len(rest):
        raw_rest, sizes = _read_words(payload, at[rest])
        is_bad = (sizes > VARINT_BYTES_MAX) | (raw_rest > np.uint64(2**32 - 1))
        raw[rest] = np.where(is_bad, 0, raw_rest).astype(np.int64)
        after[rest] = at[rest] + sizes
        if is_bad.any():
            bad = np.zeros(len(at), np.bool_)
            bad[rest] = is_bad
    return (raw >> 1) ^ -(raw & 1), after, bad


def read_varlongs(payload: Payload, at: Int64s) -> tuple[Int64s, Int64s, Bools | None]:
    """Read as read_varints does, int64 in up to ten bytes."""
    values, after, bad = read_varints(payload, at)
    rest = np.flatnonzero((after - at > 2) | (bad if bad is not None else False))
    if not len(rest):
        return values, after, None
    raw, sizes = _read_words(payload, at[rest])
    is_bad = np.zeros(len(at), np.bool_)
    for index in np.flatnonzero(sizes > _WORD_BYTES).tolist():
        one, size = _read_long(payload, int(at[rest[index]]))
        raw[index], sizes[index] = one, max(size, 1)
        is_bad[rest[index]] = not size
    values[rest] = (raw >> _ONE).view(np.int64) ^ -(raw & _ONE).view(np.int64)
    after[rest] = at[rest] + sizes
    return values, after, is_bad if is_bad.any() else None


def _read_words(payload: Payload, at: Int64s) -> tuple[Words, Int64s]:
    """Return (raw values, sizes) of varints of up to eight bytes; size 9 for longer ones."""
    words = payload.words_at(at)
    stops = ~words & _STOP_BITS
    below = (stops & (~stops + _ONE)) - _ONE  # the bits below the first stop bit; all of them without one
    sizes = (np.bitwise_count(below) >> 3).astype(np.int64) + 1
    raw = words & below & _VALUE_BITS
    for low, high, shift in _FOLDS:
        raw = (raw & low) | ((raw & high) >> shift)
    return raw, sizes


def _read_long(payload: Payload, position: int) -> tuple[int, int]:
    """Return (raw value, size) of one varlong of nine or ten bytes; size 0 if it is bad. Timestamps that lie
    292 million years apart need it."""
    raw = 0
    for size, byte in enumerate(payload.octets[position : position + VARLONG_BYTES_MAX].tolist(), start=1):
        raw |= (byte & 0x7F) << (7 * (size - 1))
        if byte < 0x80:
            return (raw, size) if raw < 2**64 else (0, 0)
    return 0, 0


def zigzag(values: Int64s) -> Words:
    """Return the unsigned numbers whose base-128 digits are the varints of `values`."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def varint_sizes(raw: Words) -> Int64s:
    """Return the bytes of each varint (1-10); `raw` is from `zigzag`."""
    sizes = np.ones(len(raw), np.int64)
    largest = int(raw.max()) if len(raw) else 0
    for digits in range(1, VARLONG_BYTES_MAX):
        if not largest >> (7 * digits):
            break
        sizes += (raw >> np.uint64(7 * digits)) != 0
    return sizes


def write_varints(out: Octets, at: Int64s, raw: Words, sizes: Int64s) -> None:
    """Write each varint at its position of `out`, which has room for it."""
    for digit in range(int(sizes.max()) if len(sizes) else 0):
        rows = slice(None) if digit == 0 else np.flatnonzero(sizes > digit)
        groups = (raw[rows] >> np.uint64(7 * digit)).astype(np.uint8) & np.uint8(0x7F)
        out[at[rows] + digit] = groups | ((sizes[rows] > digit + 1) * np.uint8(0x80)).astype(np.uint8)
