"""Spans from start to end of each record in many batches, and columns made of such spans.

A record's length stands in front of it, so within a batch one record is found only after another. Across
batches nothing depends: the batches of a fetch are lanes that advance together, one record a round, each
round a few calls of NumPy. When few lanes are left a round costs more than the records it finds, and the
rest is walked lane by lane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .varints import RECORD_STEPS, Bools, Int64s, Payload, read_varints

LANES_MIN = 32
"""Fewer lanes are walked one by one. Measured: both ways take 0.2 us a record at 32 lanes, and rounds
0.05 us at 256."""
_VARINT_SHIFT_MAX = 28
_STEPS: list[int] = RECORD_STEPS.tolist()


class Malformed(Exception):
    """Row `row` breaks the record layout. The caller knows its batch."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def refuse_first(bad: Bools | None, reason: str) -> None:
    """Raise Malformed for the first bad row, if there is one."""
    if bad is not None and bad.any():
        raise Malformed(int(bad.argmax()), reason)


class Lanes(NamedTuple):
    """The records fields of batches within one payload, one lane a batch."""

    start: Int64s
    end: Int64s
    records: Int64s


def record_spans(payload: Payload, lanes: Lanes) -> tuple[Int64s, Int64s]:
    """Return (starts, ends) of all records, lane after lane: a start is behind the record's length.

    Raise Malformed, whose row here is a *lane*, unless every lane holds exactly its count of records. The
    caller has checked the counts against the bytes, because they are allocated.
    """
    begins = _begins(payload, lanes)
    lengths, starts, bad = read_varints(payload, begins)
    ends = starts + lengths
    # The walk is right if each record begins where the one before it ends.
    due = np.empty(len(begins), np.int64)
    due[1:] = ends[:-1]
    first_row = np.cumsum(lanes.records) - lanes.records
    has_rows = lanes.records > 0
    due[first_row[has_rows]] = lanes.start[has_rows]
    is_bad_row = (begins != due) | (lengths <= 0)
    if bad is not None:
        is_bad_row |= bad
    last_end = lanes.start.copy()
    last_end[has_rows] = ends[(first_row + lanes.records - 1)[has_rows]]
    is_bad = last_end != lanes.end
    if is_bad_row.any():
        is_bad[np.repeat(np.arange(len(lanes.records)), lanes.records)[is_bad_row]] = True
    refuse_first(is_bad, "record lengths do not fill the batch")
    return starts, ends


def binary_column(data: pa.Buffer, starts: Int64s, ends: Int64s, is_null: Bools | None) -> pa.Array:
    """Return a binary array of the spans, which ascend and do not overlap. A null's span is empty.

    The payload is seen as one Arrow array whose even slots are the spans and whose odd slots are the bytes
    between them; Arrow takes the even ones.
    """
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1:-1:2] = ends
    offsets[-1] = ends[-1] if count else 0
    slots = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), data])
    taken = pc.take(slots, pa.array(np.arange(0, 2 * count, 2)), boundscheck=False)
    if is_null is None or not is_null.any():
        return taken
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), count, [validity, *taken.buffers()[1:]])


def _begins(payload: Payload, lanes: Lanes) -> Int64s:
    """Return where each record's length stands, -1 where a walk broke off. record_spans checks them."""
    begins = np.full(int(lanes.records.sum()), -1, np.int64)
    order = np.argsort(-lanes.records, kind="stable")
    counts = lanes.records[order]
    position = lanes.start[order]
    row = (np.cumsum(lanes.records) - lanes.records)[order]
    rounds = int(counts[LANES_MIN - 1]) if len(counts) >= LANES_MIN else 0
    for active in np.searchsorted(-counts, -np.arange(rounds)).tolist():
        if active < len(position):
            position, row = position[:active], row[:active]
        begins[row] = position
        step = payload.record_steps(position)
        if step.min() <= 0:  # 8 KiB or more, or no length at all
            lengths, after, _ = read_varints(payload, position)
            step = after - position + np.maximum(lengths, 0)
        position = position + step
        row = row + 1
    left = int(np.searchsorted(-counts, -rounds))
    for lane, at, first in zip(order[:left].tolist(), position.tolist(), row.tolist(), strict=False):
        found = _walk(payload, at, int(lanes.end[lane]), int(lanes.records[lane]) - rounds)
        begins[first : first + len(found)] = found
    return begins


def _walk(payload: Payload, start: int, end: int, count: int) -> Int64s:
    """Return where up to `count` records between `start` and `end` begin; fewer if a length leads out."""
    begins: list[int] = []
    if not 0 <= start <= end:
        return np.array(begins, np.int64)
    data = payload.octets.data[start:end]  # no copy: of a large record only two bytes are looked at
    position = 0
    try:
        for _ in range(count):
            begins.append(position)
            position += _STEPS[data[position] | data[position + 1] << 8] or _long_step(data, position)
    except IndexError:
        pass
    return np.array(begins, np.int64) + start


def _long_step(data: memoryview, position: int) -> int:
    """Return a step as record_steps does, for lengths of any size; 0 for a negative one, which record_spans
    refuses."""
    raw = shift = size = 0
    while (byte := data[position + size]) > 0x7F and shift < _VARINT_SHIFT_MAX:
        raw |= (byte & 0x7F) << shift
        shift += 7
        size += 1
    raw |= byte << shift
    return size + 1 + (0 if raw & 1 else raw >> 1)
