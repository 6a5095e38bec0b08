"""Transaction markers: the control batches that end a producer's transaction in one partition (KIP-98).

A marker is a batch of one record without a sequence, transactional and control by its attributes. Key:
version int16 0, type int16. Value: version int16 0, the coordinator's epoch int32. Later versions may only
append.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple

from .compression import Buffer
from .record_batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    crc_is_valid,
)
from .records import NewRecord, encode_batch, iter_records

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_PLAIN_RECORD = struct.Struct(">5shhBhiB")
"""The record of a marker as `encode_marker` and Kafka write it: up to its key, the key, the value with its
length, no headers."""
_PLAIN_HEAD, _PLAIN_VALUE_LENGTH = b"\x20\0\0\0\x08", 12
_PLAIN_LENGTH = BATCH_LENGTH_MIN + _PLAIN_RECORD.size
_PLAIN_ATTRIBUTES = ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL


class Outcome(Enum):
    """How a transaction ends, as the type of its marker. Higher types are no markers."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """coordinator_epoch: of the shard's opening that decided (contract/partition_state.py)."""

    outcome: Outcome
    coordinator_epoch: int


def encode_marker(
    outcome: Outcome,
    *,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
) -> bytes:
    """Return the whole control batch, with its CRC."""
    record = NewRecord(
        _KEY.pack(_VERSION, outcome.value), _VALUE.pack(_VERSION, coordinator_epoch), timestamp_ms
    )
    return encode_batch(
        (record,),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """Return the marker that the batch is; None: another kind of control record, as a round of compaction.
    Raise CorruptBatch for one that says that it is a marker and is none."""
    if not header.is_control:
        return None
    if header.batch_length == _PLAIN_LENGTH and header.attributes == _PLAIN_ATTRIBUTES:
        found = _read_plain(batch, header)
        if found is not None:
            return found
    records = list(iter_records(batch))
    try:
        version, kind = _KEY.unpack_from(records[0].key or b"")
        if version < 0 or kind not in (Outcome.ABORT.value, Outcome.COMMIT.value):
            return None
        value_version, coordinator_epoch = _VALUE.unpack_from(records[0].value or b"")
    except (IndexError, struct.error):
        raise CorruptBatch("a control record without a whole key and value") from None
    is_sound = value_version >= 0 and len(records) == 1
    if not (is_sound and header.is_transactional and header.has_producer_id and header.producer_epoch >= 0):
        raise CorruptBatch("a control record says that it is a transaction's marker and is none")
    return Marker(Outcome(kind), coordinator_epoch)


def _read_plain(batch: Buffer, header: BatchHeader) -> Marker | None:
    """Return the marker if it is written as all are: a recovery reads millions. None: look closer."""
    try:
        fields = _PLAIN_RECORD.unpack_from(batch, HEADER_BYTES)
    except struct.error:
        return None
    head, version, kind, value_length, value_version, coordinator_epoch, headers = fields
    if (
        (head, version, value_length, value_version, headers)
        != (_PLAIN_HEAD, _VERSION, _PLAIN_VALUE_LENGTH, _VERSION, 0)
        or kind not in (Outcome.ABORT.value, Outcome.COMMIT.value)
        or header.record_count != 1
        or header.producer_id < 0
        or header.producer_epoch < 0
        or not crc_is_valid(memoryview(batch), header)
    ):
        return None
    return Marker(Outcome(kind), coordinator_epoch)
