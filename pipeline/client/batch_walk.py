"""The last whole record batch of an answer, and the offset after it, found from headers alone. Pure.

Fetching needs to know where to continue before anything is decoded, so that the next request can be under way
meanwhile. The decoder finds damage inside a batch. Only the fields that decide the next fetch are checked
here (lengths, format, offsets).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pipeline.client.errors import MalformedAnswer, UnsupportedBroker

OFFSET_AND_LENGTH_BYTES = 12
BATCH_BYTES_MIN = 61
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_OFFSET_DELTA = struct.Struct(">i")
_MAGIC_POSITION = 16
_OFFSET_DELTA_POSITION = 23
_MAGIC = 2


class Walk(NamedTuple):
    """`whole_bytes`: up to the end of the last batch that counts. `next_offset` follows that batch, or is -1
    if no batch counts. `torn_batch_bytes`: size of the batch in whose middle the answer ends, else 0."""

    whole_bytes: int
    next_offset: int
    torn_batch_bytes: int


def walk_batches(records: memoryview, *, start_offset: int, end_offset: int) -> Walk:
    """Return how far the batches with offsets below `end_offset` reach; later batches don't count.

    Raises MalformedAnswer for bytes that are not a batch, and for a batch that lies wholly below
    `start_offset` or not after its predecessor: the client would repeat the same request without end. Raises
    UnsupportedBroker for a batch of an older format than 2.
    """
    position = 0
    next_offset = -1
    floor = start_offset
    while len(records) - position >= OFFSET_AND_LENGTH_BYTES:
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(records, position)
        size = OFFSET_AND_LENGTH_BYTES + length
        if size < BATCH_BYTES_MIN:
            raise MalformedAnswer(f"a batch of {size} bytes at offset {base_offset}")
        if base_offset >= end_offset:
            return Walk(position, next_offset, 0)
        if len(records) - position < size:
            return Walk(position, next_offset, size)
        if records[position + _MAGIC_POSITION] != _MAGIC:
            magic = records[position + _MAGIC_POSITION]
            raise UnsupportedBroker(f"the batch at offset {base_offset} is of format {magic}, not {_MAGIC}")
        (delta,) = _OFFSET_DELTA.unpack_from(records, position + _OFFSET_DELTA_POSITION)
        follows = base_offset + delta + 1
        if delta < 0 or base_offset < 0 or follows <= floor or (next_offset >= 0 and base_offset < floor):
            raise MalformedAnswer(
                f"a batch of offsets {base_offset} to {follows - 1} where {floor} was the next to come"
            )
        position += size
        next_offset = floor = follows
    return Walk(position, next_offset, BATCH_BYTES_MIN if position < len(records) else 0)
