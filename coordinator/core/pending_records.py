"""Our own records in `__consumer_offsets`: what open transactions commit, and which transactions have ended.

Kafka writes a transaction's offsets under their own keys, and its markers say which count. Here a compaction
would drop the committed offset for one whose transaction may still be aborted. So they stand under a key type
of ours, which Kafka's tools skip, and the end of the transaction writes Kafka's records.

    32001   int64 producer id, string group, string topic, int32 partition
            -> int16 version 0, int16 producer epoch, int64 order, and the value of Kafka's offset record
    32002   int64 producer id
            -> int16 version 0, int16 producer epoch, int32 coordinator epoch, int64 attempt, int64 time in ms

Bytes are checked as those of group_records.py are, and the exceptions are the same.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from coordinator.core.group_records import (
    ENDED_TYPE,
    PENDING_TYPE,
    CommittedOffset,
    EndedKey,
    NewerGroupRecord,
    PendingKey,
    UnreadableGroupRecord,
    decode_offset,
    encode_offset,
    encode_offset_key,
)
from springtide.levels import NEWEST, RELEASES

_VERSION = 0

_PRODUCER = struct.Struct(">hq")
_INT16 = struct.Struct(">h")
_PENDING_HEAD = struct.Struct(">hhq")
_ENDED = struct.Struct(">hhiqq")
_KEY_TYPE_BYTES = 2


class PendingOffset(NamedTuple):
    """An offset that counts once its transaction commits. order: it is above that of each offset that was
    pending of the partition when this one was written."""

    producer_epoch: int
    order: int
    offset: CommittedOffset


class EndedTransaction(NamedTuple):
    """The last marker of a producer that was taken here.

    producer_epoch: the marker's, which under version 2 is that of the next transaction. attempt: the number
    of the coordinator's request, which rises with each under one coordinator epoch. ended_ms: Unix time.
    """

    producer_epoch: int
    coordinator_epoch: int
    attempt: int
    ended_ms: int


def encode_pending_key(key: PendingKey) -> bytes:
    """Return the key of a pending offset; the texts take at most 32767 bytes each."""
    return _PRODUCER.pack(PENDING_TYPE, key.producer_id) + encode_offset_key(key.place)[_KEY_TYPE_BYTES:]


def encode_pending(value: PendingOffset) -> bytes:
    return _PENDING_HEAD.pack(_VERSION, value.producer_epoch, value.order) + encode_offset(value.offset)


def encode_ended_key(key: EndedKey) -> bytes:
    return _PRODUCER.pack(ENDED_TYPE, key.producer_id)


def encode_ended(value: EndedTransaction) -> bytes:
    return _ENDED.pack(_VERSION, *value)


def decode_pending(value: bytes) -> PendingOffset:
    """Return a pending offset. Raise UnreadableGroupRecord."""
    _check(value, _PENDING_HEAD, is_whole=False)
    _, producer_epoch, order = _PENDING_HEAD.unpack_from(value)
    return PendingOffset(producer_epoch, order, decode_offset(value[_PENDING_HEAD.size :]))


def decode_ended(value: bytes) -> EndedTransaction:
    """Return the end of a transaction. Raise UnreadableGroupRecord."""
    _check(value, _ENDED, is_whole=True)
    return EndedTransaction(*_ENDED.unpack(value)[1:])


def _check(value: bytes, layout: struct.Struct, *, is_whole: bool) -> None:
    version = _INT16.unpack_from(value)[0] if len(value) >= _INT16.size else -1
    if version > _VERSION:
        raise NewerGroupRecord(
            f"version {version} of a transaction's record is of a later release than {RELEASES[NEWEST]}"
        )
    if version < 0 or len(value) < layout.size or (is_whole and len(value) > layout.size):
        raise UnreadableGroupRecord("a transaction's record is cut off or has no version")
