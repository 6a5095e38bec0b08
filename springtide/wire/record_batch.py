"""The record batch, format 2, as leaders, followers and recovery read it: without opening it.

A batch is opaque bytes behind a header of 61. This module decodes that header, walks a buffer batch by batch,
checks what a leader must check before it appends, and makes the few bytes that a leader may write. It never
copies records and makes no object per record; `records.py` opens batches.

Invariant: the bytes from `attributes` to the end of a batch are covered by the producer's CRC and are stored,
replicated and served exactly as they were received. A leader stamps base offset and leader epoch, which stand
before them. Two exceptions: a topic with message.timestamp.type=LogAppendTime, where the protocol itself
asks the leader to rewrite the header (`restamp_append_time`); and a maximum timestamp that is not that of the
records, which a leader sets right, as in Kafka (produced_records.py).

Layout (KIP-98), big endian; the CRC covers bytes 21 to the end:

    0 base_offset q | 8 batch_length i (bytes after this field) | 12 leader_epoch i | 16 magic b | 17 crc I
    21 attributes h | 23 last_offset_delta i | 27 base_timestamp q | 35 max_timestamp q | 43 producer_id q
    51 producer_epoch h | 53 base_sequence i | 57 record_count i | 61 records
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from .compression import Buffer, Compression
from .errors import ErrorCode

HEADER_BYTES = 61
LENGTH_FIELD_END = 12
"""`batch_length` counts the bytes after itself, and itself ends here."""
CRC_START = 21
BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_FIELD_END
RECORD_BYTES_MIN = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each."""

MAGIC = 2
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
SEQUENCE_MAX = 2**31 - 1

ATTRIBUTE_COMPRESSION = 0x07
ATTRIBUTE_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_HEAD = struct.Struct(">qii")
_HEADER_AFTER_CRC = struct.Struct(">hiqqqhii")
_MAGIC_AND_CRC = struct.Struct(">bI")


class TimestampType(IntEnum):
    """The origin of a batch's timestamps, client or broker: bit 3 of its attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class CorruptBatch(Exception):
    """The bytes are not a record batch. `position` is where in the buffer the bad batch begins."""

    def __init__(self, reason: str, *, position: int = 0) -> None:
        super().__init__(f"{reason} (batch at position {position})")
        self.reason = reason
        self.position = position


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records. Offsets are absolute, timestamps Unix milliseconds."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def is_plausible(self) -> bool:
        """Return whether a batch can begin so: with this format's magic, and at least a header's length."""
        return self.magic == MAGIC and self.batch_length >= BATCH_LENGTH_MIN

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Return the offset after this batch, where the next one begins if the log has no gap."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole batch, header included."""
        return self.batch_length + LENGTH_FIELD_END

    @property
    def last_sequence(self) -> int:
        """Return the last record's sequence, -1 without one. 2^31-1 is followed by 0 (KAFKA-7692)."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def compression(self) -> int:
        """Return a Compression value, or 5-7, which no release has defined."""
        return self.attributes & ATTRIBUTE_COMPRESSION

    @property
    def timestamp_type(self) -> TimestampType:
        return (
            TimestampType.LOG_APPEND_TIME
            if self.attributes & ATTRIBUTE_APPEND_TIME
            else TimestampType.CREATE_TIME
        )


def decode_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`, unchecked. Raise CorruptBatch if fewer than 61 bytes are left."""
    try:
        return BatchHeader._make(_HEADER.unpack_from(buffer, position))
    except struct.error:
        raise CorruptBatch("fewer than 61 bytes", position=position) from None


def encode_header(header: BatchHeader) -> bytes:
    return _HEADER.pack(*header)


def iter_headers(
    buffer: Buffer, position: int = 0, limit: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch between `position` and `limit` (or the buffer's end).

    Stop silently before a batch that `limit` cuts off, because Fetch answers and torn tails end so; the last
    pair tells the caller where. Raise CorruptBatch on a length that no batch can have or a magic other than
    2, since nothing after it can be found. CRCs are not checked.
    """
    end = len(buffer) if limit is None else min(limit, len(buffer))
    while end - position >= HEADER_BYTES:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
        if header.batch_length < BATCH_LENGTH_MIN:
            raise CorruptBatch(f"impossible batch length {header.batch_length}", position=position)
        if header.magic != MAGIC:
            raise CorruptBatch(f"unknown magic {header.magic}", position=position)
        following = position + header.batch_length + LENGTH_FIELD_END
        if following > end:
            return
        yield position, header
        position = following


def crc_is_valid(view: memoryview, header: BatchHeader) -> bool:
    """Return whether the bytes from `attributes` to the batch's end have the header's CRC. Copy nothing.

    `view` begins at the batch's first byte; bytes after the batch are ignored; a cut-off batch is not valid.
    """
    size = header.batch_length + LENGTH_FIELD_END
    return HEADER_BYTES <= size <= len(view) and crc32c(view[CRC_START:size]) == header.crc


def stamp_head(*, base_offset: int, header: BatchHeader, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of a batch as a leader writes them; the rest stays a view of the received
    bytes."""
    return _HEAD.pack(base_offset, header.batch_length, leader_epoch)


def restamp_append_time(
    view: memoryview, header: BatchHeader, *, base_offset: int, leader_epoch: int, append_time_ms: int
) -> bytes:
    """Return the 61 header bytes for a topic with LogAppendTime: type bit and max timestamp set, a new CRC.

    The records stay a view (`view[61:size]`): readers of such a batch take max_timestamp for every record, so
    their deltas need no rewrite. Costs one pass of CRC over the batch.
    """
    after_crc = _HEADER_AFTER_CRC.pack(
        header.attributes | ATTRIBUTE_APPEND_TIME,
        header.last_offset_delta,
        header.base_timestamp,
        append_time_ms,
        *header[9:],
    )
    crc = crc32c(view[HEADER_BYTES : header.size_bytes], crc32c(after_crc))
    head = stamp_head(base_offset=base_offset, header=header, leader_epoch=leader_epoch)
    return head + _MAGIC_AND_CRC.pack(header.magic, crc) + after_crc


def check_produced_batch(
    view: memoryview,
    *,
    max_message_bytes: int,
    header: BatchHeader | None = None,
    is_zstd_allowed: bool = True,
    is_transactional_allowed: bool = False,
) -> ErrorCode:
    """Return what is wrong with one partition's produced bytes, before the leader appends them, or NONE.

    `view` is the whole records field: exactly one batch. Pass `header` if it is decoded already.
    `is_zstd_allowed` is false for Produce before v7 (KIP-110). `is_transactional_allowed`: the request names
    a transactional id, and the cluster has transactions.

    The rules are those of Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and
    LogValidator.validateBatch, with one more: a transactional batch that no coordinator can know of, because
    it has no producer id or no transactional id, gets INVALID_TXN_STATE; aborted, it could not be hidden.

    It takes a few microseconds whatever the batch holds; what the records say, produced_records looks at.
    """
    size = len(view)
    if size < HEADER_BYTES:
        return ErrorCode.CORRUPT_MESSAGE if size else ErrorCode.INVALID_RECORD
    if header is None:
        header = BatchHeader._make(_HEADER.unpack_from(view))
    if header.magic != MAGIC:
        return ErrorCode.INVALID_RECORD
    batch_bytes = header.batch_length + LENGTH_FIELD_END
    if batch_bytes < HEADER_BYTES or batch_bytes > size:
        return ErrorCode.CORRUPT_MESSAGE
    if batch_bytes != size:  # a second batch, or junk
        return ErrorCode.INVALID_RECORD
    if size > max_message_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if crc32c(view[CRC_START:]) != header.crc:
        return ErrorCode.CORRUPT_MESSAGE
    attributes = header.attributes
    compression = attributes & ATTRIBUTE_COMPRESSION
    if compression > Compression.ZSTD or (compression == Compression.ZSTD and not is_zstd_allowed):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    count = header.record_count
    if (
        count <= 0
        or count != header.last_offset_delta + 1
        or header.base_offset != 0
        or attributes & ATTRIBUTE_CONTROL
    ):
        return ErrorCode.INVALID_RECORD
    if header.producer_id != NO_PRODUCER_ID and (
        header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0
    ):
        return ErrorCode.INVALID_RECORD
    if attributes & ATTRIBUTE_TRANSACTIONAL and not (is_transactional_allowed and header.producer_id >= 0):
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE
