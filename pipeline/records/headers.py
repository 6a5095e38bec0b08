"""The headers of a fetch's batches, as columns.

A scan finds where each batch begins and reads its 61 bytes; it opens no batch. It tolerates the torn last
batch that a Fetch answer may end with, and nothing else: a length that no batch can have, another format,
offsets that do not ascend or counts that contradict each other raise DamagedBatch and never become a row. A
survey returns all damage. A stored CRC is compared where records are decoded (decode.py) or where the caller
asks (`computed_crcs`). It does not cover base offset, length and leader epoch, so the scan checks that they
agree.

The layout is KIP-98's; springtide/wire/record_batch.py has it byte by byte.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

from springtide.wire.compression import Buffer, Compression
from springtide.wire.record_batch import (
    ATTRIBUTE_APPEND_TIME,
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_LENGTH_MIN,
    CRC_START,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    RECORD_BYTES_MIN,
)

from .varints import Bools, Int64s

_LENGTH = struct.Struct(">i")
_LENGTH_START = 8
_MAGIC_START = 16
_INT64_MAX = 2**63 - 1

_LAYOUT = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert _LAYOUT.itemsize == HEADER_BYTES

HEADER_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("crc", pa.int64()),
        ("computed_crc", pa.int64()),
        ("size_bytes", pa.int32()),
        ("attributes", pa.int16()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("record_count", pa.int32()),
        ("base_timestamp", pa.int64()),
        ("max_timestamp", pa.int64()),
    ]
)
"""The columns of `header_rows`; `raw` (binary, the whole batch) comes last where it was asked for. Timestamps
are Unix milliseconds as stored, -1 for none. CRCs are unsigned 32-bit numbers in a 64-bit type, which Spark
has."""


class DamagedBatch(Exception):
    """The bytes are not a sound record batch. `position` is where it begins in the data; `base_offset` is in
    its first eight bytes, None if they are missing."""

    def __init__(self, reason: str, *, position: int, base_offset: int | None = None) -> None:
        at = "" if base_offset is None else f" with base offset {base_offset}"
        super().__init__(f"{reason} (batch{at} at byte {position} of the fetched data)")
        self.reason = reason
        self.position = position
        self.base_offset = base_offset


@dataclass(frozen=True, slots=True, eq=False)
class BatchHeaders:
    """One row a whole batch, in the order of the data; every column has the same length.

    Offsets are absolute, `last_offset` inclusive, timestamps Unix milliseconds; `data[position : position +
    size_bytes]` is the batch. `record_count` may be less than the offsets a batch spans, 0 included:
    compaction leaves such batches.
    """

    position: Int64s
    size_bytes: Int64s
    base_offset: Int64s
    last_offset: Int64s
    leader_epoch: NDArray[np.int32]
    crc: NDArray[np.uint32]
    attributes: NDArray[np.int16]
    base_timestamp: Int64s
    max_timestamp: Int64s
    producer_id: Int64s
    producer_epoch: NDArray[np.int16]
    base_sequence: NDArray[np.int32]
    record_count: NDArray[np.int32]
    end: int
    """Position after the last whole batch; the bytes from here on are a torn one. 0 with data present means
    that no batch fitted, so asking for the same number of bytes again makes no progress."""

    def __len__(self) -> int:
        return len(self.position)

    @property
    def next_offset(self) -> int | None:
        """Return the offset after the last whole batch, where a reader continues; None without a batch."""
        return int(self.last_offset[-1]) + 1 if len(self) else None

    @property
    def compression(self) -> NDArray[np.int16]:
        """Return a Compression value each, or 5-7, which no release has defined."""
        return self.attributes & ATTRIBUTE_COMPRESSION

    @property
    def is_append_time(self) -> Bools:
        return self._has(ATTRIBUTE_APPEND_TIME)

    @property
    def is_transactional(self) -> Bools:
        return self._has(ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> Bools:
        return self._has(ATTRIBUTE_CONTROL)

    def _has(self, bit: int) -> Bools:
        has: Bools = np.not_equal(self.attributes & bit, 0)
        return has

    def damaged(self, index: int, reason: str) -> DamagedBatch:
        """Return the error that names batch `index`."""
        return DamagedBatch(
            reason, position=int(self.position[index]), base_offset=int(self.base_offset[index])
        )


class Survey(NamedTuple):
    """All batches that could be found. `faults`: by index, the error in a batch's header; its bytes begin and
    end where `headers` says. `broken`: where no further batch could be found, nor the end of one. Offsets
    that do not ascend are not a fault here, because the caller knows what came before."""

    headers: BatchHeaders
    faults: Mapping[int, str]
    broken: DamagedBatch | None


def scan_headers(data: Buffer) -> BatchHeaders:
    """Return the headers of all whole batches in `data`, a Fetch answer's records or a segment's bytes.

    Raise DamagedBatch at the first bad batch. The batches before it are sound: scan `data[: error.position]`.
    """
    headers, faults, broken = survey_headers(data)
    does_not_ascend = np.flatnonzero(headers.base_offset[1:] <= headers.last_offset[:-1]) + 1
    first = min(min(faults, default=len(headers)), int(does_not_ascend.min(initial=len(headers))))
    if first < len(headers):
        raise headers.damaged(first, faults.get(first, "offsets do not ascend"))
    if broken is not None:
        raise broken
    return headers


def survey_headers(data: Buffer) -> Survey:
    """Return the headers of all whole batches and all damage. No bytes make it raise."""
    view = memoryview(data)
    positions, end, broken = _walk(view)
    at = np.array(positions, np.int64)
    octets = np.frombuffer(view, np.uint8)
    columns = octets[at[:, None] + np.arange(HEADER_BYTES)].view(_LAYOUT)[:, 0]
    base_offset = columns["base_offset"].astype(np.int64)
    last_delta = columns["last_offset_delta"].astype(np.int64)
    headers = BatchHeaders(
        position=at,
        size_bytes=columns["batch_length"].astype(np.int64) + LENGTH_FIELD_END,
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        leader_epoch=columns["leader_epoch"].astype(np.int32),
        crc=columns["crc"].astype(np.uint32),
        attributes=columns["attributes"].astype(np.int16),
        base_timestamp=columns["base_timestamp"].astype(np.int64),
        max_timestamp=columns["max_timestamp"].astype(np.int64),
        producer_id=columns["producer_id"].astype(np.int64),
        producer_epoch=columns["producer_epoch"].astype(np.int16),
        base_sequence=columns["base_sequence"].astype(np.int32),
        record_count=columns["record_count"].astype(np.int32),
        end=end,
    )
    return Survey(headers, _faults(headers, columns["magic"].astype(np.int16), last_delta), broken)


def computed_crcs(data: Buffer, headers: BatchHeaders) -> NDArray[np.uint32]:
    """Return the CRC-32C of each batch's bytes, which its header may contradict."""
    view = memoryview(data)
    crcs = [
        crc32c(view[position + CRC_START : position + size])
        for position, size in zip(headers.position.tolist(), headers.size_bytes.tolist(), strict=True)
    ]
    return np.array(crcs, np.uint32)


def header_rows(
    data: Buffer, headers: BatchHeaders, *, topic: str, partition: int, raw: bool = False
) -> pa.RecordBatch:
    """Return the rows of HEADER_SCHEMA, CRCs computed; with `raw` also each batch's bytes."""
    view = memoryview(data)
    count = len(headers)
    columns = {
        "topic": pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "crc": pa.array(headers.crc.astype(np.int64)),
        "computed_crc": pa.array(computed_crcs(view, headers).astype(np.int64)),
        "size_bytes": pa.array(headers.size_bytes.astype(np.int32)),
    }
    arrays = [
        columns[name] if name in columns else pa.array(getattr(headers, name)) for name in HEADER_SCHEMA.names
    ]
    if not raw:
        return pa.RecordBatch.from_arrays(arrays, schema=HEADER_SCHEMA)
    ends = (headers.position + headers.size_bytes).tolist()
    batches = [view[start:end] for start, end in zip(headers.position.tolist(), ends, strict=True)]
    arrays.append(pa.array(batches, pa.binary()))
    return pa.RecordBatch.from_arrays(arrays, schema=HEADER_SCHEMA.append(pa.field("raw", pa.binary())))


def _walk(view: memoryview) -> tuple[list[int], int, DamagedBatch | None]:
    """Return (starts of whole batches, end of the last one, the damage that stopped the walk or None)."""
    positions: list[int] = []
    position, size = 0, len(view)
    unpack = _LENGTH.unpack_from
    while size - position >= LENGTH_FIELD_END:
        (length,) = unpack(view, position + _LENGTH_START)
        if length < BATCH_LENGTH_MIN:
            return positions, position, _no_batch(view, position, f"impossible batch length {length}")
        following = position + length + LENGTH_FIELD_END
        if following > size:
            if size - position > _MAGIC_START and view[position + _MAGIC_START] != MAGIC:
                magic = view[position + _MAGIC_START]
                return positions, position, _no_batch(view, position, f"unknown record format {magic}")
            break
        positions.append(position)
        position = following
    return positions, position, None


def _no_batch(view: memoryview, position: int, reason: str) -> DamagedBatch:
    base_offset = int.from_bytes(view[position : position + _LENGTH_START], signed=True)
    return DamagedBatch(reason, position=position, base_offset=base_offset)


def _faults(headers: BatchHeaders, magic: NDArray[np.int16], last_delta: Int64s) -> dict[int, str]:
    """Return the bad headers by index, in order, each with the first rule that it breaks."""
    count = headers.record_count.astype(np.int64)
    # A record has at least seven bytes, which a codec can shrink: only plain batches can be checked for it.
    is_plain = headers.compression == Compression.NONE
    rules = (
        (magic != MAGIC, "not record format 2"),
        ((headers.base_offset < 0) | (last_delta < 0), "negative offset"),
        (headers.base_offset > _INT64_MAX - 1 - np.maximum(last_delta, 0), "offset beyond 2^63"),
        ((count < 0) | (count > last_delta + 1), "record count contradicts the offsets"),
        (
            is_plain & (count * RECORD_BYTES_MIN > headers.size_bytes - HEADER_BYTES),
            "record count exceeds what the bytes can hold",
        ),
    )
    bad = np.logical_or.reduce([rule for rule, _ in rules])
    return {
        index: next(reason for rule, reason in rules if rule[index]) for index in np.flatnonzero(bad).tolist()
    }
