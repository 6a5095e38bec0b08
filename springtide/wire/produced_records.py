"""What a leader believes of a produced batch's records: what it has seen in them, before it appends.

record_batch.check_produced_batch judges the header, its CRC and sizes; this module opens the batch, walks its
records (record_walk.py), and judges and stamps the header's maximum timestamp by them. The rules are those of
Kafka's LogValidator. The walk is bounded by `decompressed_bytes_max` and
RECORDS_MAX.
"""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from . import record_walk, shortcuts
from .compression import CorruptCompressedData, DecompressedTooLarge
from .errors import ErrorCode
from .record_batch import (
    ATTRIBUTE_APPEND_TIME,
    CRC_START,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    decode_header,
)
from .records import open_payload, seal_batch

RECORDS_MAX = 1_000_000
"""Records in one batch, ten million of which a megabyte of zstd could hold: about a second's walk in plain
Python. librdkafka's largest batch.num.messages; Java's batches end at batch.size bytes long before."""
_LONG_LIMIT = 2**63


class CheckedBatch(NamedTuple):
    """error: why the batch is refused, or NONE. header, batch: what to append in place of what came, with the
    records' own maximum timestamp; the very same where the producer said it right, as nearly all do."""

    error: ErrorCode
    header: BatchHeader
    batch: memoryview


def plain_batch_header(
    batch: memoryview,
    *,
    max_message_bytes: int,
    needs_keys: bool,
    timestamp_ms_min: int | None,
    timestamp_ms_max: int | None,
) -> BatchHeader | None:
    """Return the header of a batch that check_produced_batch and check_produced_records would pass as it is;
    None where they have to judge it."""
    fields = shortcuts.plain_batch(batch, max_message_bytes, needs_keys, timestamp_ms_min, timestamp_ms_max)
    if fields is None or crc32c(batch[CRC_START:]) != fields[4]:
        return None
    return tuple.__new__(BatchHeader, fields)


def check_produced_records(
    batch: memoryview,
    header: BatchHeader,
    *,
    decompressed_bytes_max: int,
    needs_keys: bool = False,
    is_append_time: bool = False,
    timestamp_ms_min: int | None = None,
    timestamp_ms_max: int | None = None,
) -> CheckedBatch:
    """Walk every record of a batch that has passed check_produced_batch.

    Records that are not as the header says, or no sound ones, or without a key although `needs_keys`:
    INVALID_RECORD. A broken compressed stream, or another codec than the header names: CORRUPT_MESSAGE. More
    output than `decompressed_bytes_max`, of which no more is allocated, or more than RECORDS_MAX records:
    MESSAGE_TOO_LARGE. A record's time beyond the absolute bounds, or beyond 64 bits: INVALID_TIMESTAMP. As in
    Kafka, a batch without timestamps (-1) keeps within any bounds; one that has both kinds does not, if there
    is a lower one. is_append_time: the leader's own time counts, so the records' is not judged.

    A producer that claims the leader's stamp (LogAppendTime, as a copy of another cluster's batch does) is
    answered as by Kafka: INVALID_TIMESTAMP where the leader stamps; elsewhere the claim is taken away.
    """
    if header.record_count > RECORDS_MAX:
        return CheckedBatch(ErrorCode.MESSAGE_TOO_LARGE, header, batch)
    try:
        payload = open_payload(batch, header, decompressed_bytes_max)
    except DecompressedTooLarge:
        return CheckedBatch(ErrorCode.MESSAGE_TOO_LARGE, header, batch)
    except CorruptCompressedData:
        return CheckedBatch(ErrorCode.CORRUPT_MESSAGE, header, batch)
    unsound, least, most, _ = record_walk.walk_records(payload, header.record_count, needs_keys)
    if unsound:
        return CheckedBatch(ErrorCode.INVALID_RECORD, header, batch)
    is_stamped = header.attributes & ATTRIBUTE_APPEND_TIME
    if is_append_time:
        return CheckedBatch(ErrorCode.INVALID_TIMESTAMP if is_stamped else ErrorCode.NONE, header, batch)
    least += header.base_timestamp
    most += header.base_timestamp
    if (
        least < -_LONG_LIMIT
        or most >= _LONG_LIMIT
        or (timestamp_ms_max is not None and most > timestamp_ms_max)
        or (timestamp_ms_min is not None and least < timestamp_ms_min and not least == most == NO_TIMESTAMP)
    ):
        return CheckedBatch(ErrorCode.INVALID_TIMESTAMP, header, batch)
    most = max(most, NO_TIMESTAMP)
    if is_stamped or most != header.max_timestamp:
        attributes = header.attributes & ~ATTRIBUTE_APPEND_TIME
        header = header._replace(max_timestamp=most, attributes=attributes)
        batch = memoryview(seal_batch(header, batch[HEADER_BYTES:]))
        header = decode_header(batch)
    return CheckedBatch(ErrorCode.NONE, header, batch)


def latest_record_ms(batch: memoryview, header: BatchHeader, *, decompressed_bytes_max: int) -> int | None:
    """Return the largest timestamp of the records of a stored batch, as they tell it; None if they can't be
    read within the bound, which batches of earlier releases may not be. The CRC is the caller's."""
    try:
        payload = open_payload(batch, header, decompressed_bytes_max)
    except (CorruptCompressedData, DecompressedTooLarge):
        return None
    unsound, _, most, _ = record_walk.walk_records(payload, header.record_count, False)
    return None if unsound else header.base_timestamp + most
