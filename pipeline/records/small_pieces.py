"""Many small pieces of logs decoded at once: the rows of decode_records in a small part of the time.

A call of NumPy takes as long for one record as for a thousand, so a partition with one record takes about a
millisecond by itself; each of thousands of slow partitions brings a record or two. Only plain pieces are
decoded here. Others, damaged ones above all, are left to decode_records, piece by piece, which can name the
partition and the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springtide.wire.compression import Buffer

from .decode import (
    BATCH_BYTES_MAX,
    OFFSET_MAX,
    PAYLOAD_BYTES_TARGET,
    PLAIN_COLUMNS,
    Decoder,
    OpenedGroup,
    Opener,
    holds_wanted,
    record_schema,
)
from .headers import BatchHeaders, DamagedBatch, survey_headers
from .varints import Bools, Int64s


class Piece(NamedTuple):
    """Whole record batches of one partition. Records with first_offset <= offset < end_offset are wanted."""

    topic: str
    partition: int
    records: Buffer
    first_offset: int = 0
    end_offset: int = OFFSET_MAX


def decode_together(
    pieces: Sequence[Piece], *, columns: Sequence[str] = PLAIN_COLUMNS
) -> pa.RecordBatch | None:
    """Return the rows of decode_records for the pieces, one after another; there may be no rows.

    None if they are not plain, or more than are opened at a time; that says nothing about any of them.
    """
    schema = record_schema(columns)
    pieces = [piece for piece in pieces if len(piece.records)]
    if not pieces:
        return _no_rows(schema)
    data = b"".join(piece.records for piece in pieces)
    headers, faults, broken = survey_headers(data)
    begins = np.cumsum([0, *(len(piece.records) for piece in pieces)])[:-1]
    is_first = np.isin(headers.position, begins)
    if faults or broken is not None or headers.end != len(data) or int(is_first.sum()) != len(pieces):
        return None
    if not (is_first[1:] | (headers.base_offset[1:] > headers.last_offset[:-1])).all():
        return None
    piece_of: Int64s = np.cumsum(is_first) - 1
    decoder = _Together(headers, schema, pieces, piece_of)
    wanted = np.flatnonzero(holds_wanted(headers, decoder.first, decoder.end))
    in_range = int(np.flatnonzero(headers.base_offset < decoder.end).max(initial=-1)) + 1
    opener = Opener(memoryview(data), headers, BATCH_BYTES_MAX)
    rows = _no_rows(schema)
    try:
        for group in opener.groups(wanted, in_range, PAYLOAD_BYTES_TARGET):
            if len(group[0]) < len(wanted):
                return None
            rows = decoder.decode(*group)
    except DamagedBatch:
        return None
    return rows


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


class _Together(Decoder):
    """A Decoder for batches of several partitions, whose offsets are independent."""

    def __init__(
        self, headers: BatchHeaders, schema: pa.Schema, pieces: Sequence[Piece], piece_of: Int64s
    ) -> None:
        super().__init__(headers, schema, pieces[0].topic, pieces[0].partition, (0, OFFSET_MAX))
        self._pieces = pieces
        self._piece_of = piece_of
        self.first: Int64s = np.array([piece.first_offset for piece in pieces], np.int64)[piece_of]
        self.end: Int64s = np.array([piece.end_offset for piece in pieces], np.int64)[piece_of]
        """The wanted offsets, by batch."""

    def _within(self, offsets: Int64s, batch_of: Int64s) -> slice | Bools:
        which: Bools = (offsets >= self.first[batch_of]) & (offsets < self.end[batch_of])
        return slice(0, len(offsets)) if which.all() else which

    def _topics(self, opened: OpenedGroup) -> pa.Array:
        topics = [piece.topic for piece in self._pieces]
        if len(set(topics)) == 1:
            return super()._topics(opened)
        return pc.take(pa.array(topics, pa.string()), pa.array(self._piece_of[opened.batch_of]))

    def _partitions(self, opened: OpenedGroup) -> pa.Array:
        partitions = np.array([piece.partition for piece in self._pieces], np.int32)
        return pa.array(partitions[self._piece_of[opened.batch_of]])
