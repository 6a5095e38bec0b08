"""Batches that would fail their readers, under true CRCs, and the code by which a leader refuses each."""

from __future__ import annotations

import gzip
from typing import Any

from springtide.wire.errors import ErrorCode
from springtide.wire.produced_records import RECORDS_MAX
from springtide.wire.record_batch import HEADER_BYTES, LENGTH_FIELD_END, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch, write_varint

NOW_MS = 1_700_000_000_000
MIB = 1024 * 1024


def of_payload(payload: bytes, **changes: Any) -> bytes:
    """A batch of these bytes, one record in it if the changes don't say otherwise, under a true CRC."""
    header = decode_header(encode_batch([NewRecord(timestamp=NOW_MS)]))
    return seal_batch(
        header._replace(batch_length=HEADER_BYTES - LENGTH_FIELD_END + len(payload), **changes), payload
    )


def varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def sized(body: bytes) -> bytes:
    return varint(len(body)) + body


PLAIN = sized(b"\0\0\0\1\1\0")
INVALID = ErrorCode.INVALID_RECORD
POISON = {
    "a header with a null key": (of_payload(sized(b"\0\0\0\1\1\2" + varint(-1) + b"\2x")), INVALID),
    "a header count of -1": (of_payload(sized(b"\0\0\0\1\1" + varint(-1))), INVALID),
    "a header count of 2^31-1": (of_payload(sized(b"\0\0\0\1\1" + varint(2**31 - 1))), INVALID),
    "a record length of 100 where 6 are": (of_payload(varint(100) + b"\0\0\0\1\1\0"), INVALID),
    "a key length of 100 where 3 are": (of_payload(sized(b"\0\0\0" + varint(100) + b"abc\1\0")), INVALID),
    "a byte behind the last field": (of_payload(sized(b"\0\0\0\1\1\0Z")), INVALID),
    "bytes behind the last record": (of_payload(PLAIN + b"Z"), INVALID),
    "no record": (of_payload(b""), INVALID),
    "a count above the records": (of_payload(PLAIN, record_count=2, last_offset_delta=1), INVALID),
    "a count of a million in seven bytes": (
        of_payload(PLAIN, record_count=RECORDS_MAX, last_offset_delta=RECORDS_MAX - 1),
        INVALID,
    ),
    "a count of 2^31-1": (
        of_payload(PLAIN, record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "two records of one offset": (of_payload(PLAIN * 2, record_count=2, last_offset_delta=1), INVALID),
    "gzip that is plain": (of_payload(PLAIN, attributes=1), ErrorCode.CORRUPT_MESSAGE),
    "zstd that is gzip": (of_payload(gzip.compress(PLAIN), attributes=4), ErrorCode.CORRUPT_MESSAGE),
    "gzip that is cut": (of_payload(gzip.compress(PLAIN)[:-9], attributes=1), ErrorCode.CORRUPT_MESSAGE),
    "gzip with a count above its record": (
        of_payload(gzip.compress(PLAIN), attributes=1, record_count=1_000, last_offset_delta=999),
        INVALID,
    ),
    "gzip with a count below its records": (of_payload(gzip.compress(PLAIN * 3), attributes=1), INVALID),
    "gzip of more than the bound": (
        of_payload(gzip.compress(bytes(2 * MIB)), attributes=1),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
}
