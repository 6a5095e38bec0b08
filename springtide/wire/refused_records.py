"""Why a leader refuses a batch, in words, and which of its records: for the answer to the producer (KIP-467).

The leader's checks (record_batch.py, produced_records.py) say no more than an error code, because they look
at every batch. This module looks at a refused batch again. It decides nothing: what it does not find, it does
not tell. The look is bounded by `decompressed_bytes_max`, RECORDS_LOOKED_AT_MAX and RECORDS_TOLD_MAX.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .record_batch import (
    ATTRIBUTE_APPEND_TIME,
    ATTRIBUTE_CONTROL,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
)
from .records import iter_records, seal_batch

RECORDS_LOOKED_AT_MAX = 10_000
"""Records that are looked at again, about two microseconds each: an event loop waits for no more."""
RECORDS_TOLD_MAX = 100
"""Records that one answer names."""
_REASONS_SHOWN = 3
"""As many as Kafka's message shows."""

NO_BATCH = "there is no batch of records"
NO_KEY = "a record without a key can't be in a compacted topic"
APPEND_TIME = "a producer may not set the timestamp type LogAppendTime: that is the leader's"
NOT_FOUND = "the records, or their times, are not as the batch's header and the topic's bounds want them"


class RefusedRecords(NamedTuple):
    """message: of the whole batch. records: (index in the batch, reason) of each that is wrong."""

    message: str
    records: tuple[tuple[int, str], ...] = ()


def refused_records(
    batch: memoryview,
    header: BatchHeader | None,
    *,
    decompressed_bytes_max: int,
    needs_keys: bool,
    is_append_time: bool,
    timestamp_ms_min: int | None,
    timestamp_ms_max: int | None,
) -> RefusedRecords:
    """Return why a batch is refused with INVALID_RECORD or INVALID_TIMESTAMP. The arguments are those of the
    checks that refused it; header: None if the bytes hold none."""
    of_batch = _wrong_in_header(batch, header)
    if header is None or of_batch is not None:
        return RefusedRecords(of_batch or NO_BATCH)
    if is_append_time:
        timestamp_ms_min = timestamp_ms_max = None
    elif header.attributes & ATTRIBUTE_APPEND_TIME:  # the records' own times were judged
        header = header._replace(attributes=header.attributes & ~ATTRIBUTE_APPEND_TIME)
        batch = memoryview(seal_batch(header, batch[HEADER_BYTES:]))
    least = timestamp_ms_min if timestamp_ms_min is not None else -(2**63)
    most = timestamp_ms_max if timestamp_ms_max is not None else 2**63 - 1
    found: list[tuple[int, str]] = []
    for index, reason in _wrong_records(
        batch, decompressed_bytes_max=decompressed_bytes_max, needs_keys=needs_keys, least=least, most=most
    ):
        found.append((index, reason))
        if len(found) == RECORDS_TOLD_MAX:
            break
    if not found:
        return RefusedRecords(APPEND_TIME if header.attributes & ATTRIBUTE_APPEND_TIME else NOT_FOUND)
    shown = "; ".join(f"record {index}: {reason}" for index, reason in found[:_REASONS_SHOWN])
    more = "" if len(found) <= _REASONS_SHOWN else f"; {len(found) - _REASONS_SHOWN} more"
    return RefusedRecords(f"the batch is refused for single records. {shown}{more}", tuple(found))


def _wrong_in_header(batch: memoryview, header: BatchHeader | None) -> str | None:
    if header is None:
        return None
    if header.magic != MAGIC:
        return f"a batch of magic {header.magic}: only those of magic {MAGIC} are stored"
    if header.batch_length + LENGTH_FIELD_END != len(batch):
        return "more than one batch for a partition, or bytes after it"
    count, last = header.record_count, header.last_offset_delta
    if count <= 0 or count != last + 1 or header.base_offset != 0:
        return f"the header counts {count} records, at offsets {header.base_offset} to {last}"
    if header.attributes & ATTRIBUTE_CONTROL:
        return "clients may not write control records"
    if header.producer_id != -1 and min(header.producer_id, header.producer_epoch, header.base_sequence) < 0:
        return (
            f"producer id {header.producer_id} with epoch {header.producer_epoch} "
            f"and sequence {header.base_sequence}"
        )
    return None


def _wrong_records(
    batch: memoryview, *, decompressed_bytes_max: int, needs_keys: bool, least: int, most: int
) -> Iterator[tuple[int, str]]:
    """Yield the index and the fault of each wrong record; the first one without sound layout is the last, as
    where the next begins is not known."""
    index = 0
    try:
        for record in iter_records(batch, decompressed_bytes_max=decompressed_bytes_max):
            if record.offset != index:
                yield index, f"its offset in the batch is {record.offset}, not {index}"
                return
            if needs_keys and record.key is None:
                yield index, NO_KEY
            elif record.timestamp > most:
                yield index, f"its timestamp {record.timestamp} is later than the topic takes: {most}"
            elif record.timestamp != NO_TIMESTAMP and record.timestamp < least:
                yield index, f"its timestamp {record.timestamp} is earlier than the topic takes: {least}"
            index += 1
            if index == RECORDS_LOOKED_AT_MAX:
                return
    except CorruptBatch as error:
        yield index, error.reason
