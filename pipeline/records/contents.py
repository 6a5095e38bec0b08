"""Contents of records: bytes that are equal only for equal contents, and a 16-byte hash of them. Pure."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .rows import RecordRows, concatenated, lengths, varint_column
from .varints import zigzag

HASH_BYTES = 16


def contents(rows: RecordRows, *, with_timestamps: bool) -> pa.Array:
    """Return key, value, headers and perhaps the timestamp of each row, each length before its bytes, so that
    different contents give different bytes."""
    parts = (
        varint_column(zigzag(lengths(rows.key))),
        rows.key,
        varint_column(zigzag(lengths(rows.value))),
        rows.value,
        rows.tail,
    )
    return concatenated(*((varint_column(zigzag(rows.timestamp_ms)), *parts) if with_timestamps else parts))


def hashes(values: pa.Array) -> pa.Array:
    """Return the BLAKE2 hash of each value, HASH_BYTES long; null for null."""
    is_valid = values.is_valid()
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(values) + 1, offset=values.offset * 4).tolist()
    data = memoryview(data_buffer if data_buffer is not None else b"")
    digests = b"".join(
        [blake2b(data[start:end], digest_size=HASH_BYTES).digest() for start, end in pairwise(offsets)]
    )
    ends = np.arange(len(values) + 1, dtype=np.int32) * HASH_BYTES
    hashed = pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(digests)]
    )
    return pc.if_else(is_valid, hashed, pa.scalar(None, pa.binary()))
