"""The records of `__transaction_state`, byte for byte Kafka's, because backup and audit tools read them.

A key is int16 0 and the transactional id; a value is an int16 version and fields; no value is a tombstone.
Version 1 is written, as Kafka writes it where `transaction.version` is 1 or above; versions 0 and 1 are read.
One tagged field is ours: the producer epoch before the present one, by which a client whose answer was lost
is known to be the owner (KIP-360). Kafka keeps it in memory only, and fences such a client after a failover;
its readers skip a tag that they do not know.

Bytes are checked before anything is allocated for them. UnreadableTransactionRecord is the only exception,
and NewerTransactionRecord one of them.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from coordinator.core.machine import UnreadableState
from springtide.levels import NEWEST, RELEASES
from springtide.wire.primitives import (
    REQUEST_ELEMENTS_MAX,
    MalformedRequest,
    Reader,
    read_whole,
    topic_runs,
    write_count,
    write_string,
    write_uvarint,
)

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIME = -1

_KEY_TYPE = 0
_VERSION = 1
_FLEXIBLE_SINCE = 1
_PREVIOUS_ID_TAG = 0
_NEXT_ID_TAG = 1
_CLIENT_VERSION_TAG = 2
_NEXT_EPOCH_TAG = 3
_LAST_EPOCH_TAG = 10_000
_TOPIC_BYTES_MIN = 2
"""The least that a topic takes: an empty name and no partition."""
_PARTITION_BYTES = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_FIRST = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")


class UnreadableTransactionRecord(UnreadableState):
    """The bytes are no key or value of `__transaction_state` that Kafka 4.3 can read."""


class NewerTransactionRecord(UnreadableTransactionRecord):
    """The record is of a type or version that only a later release knows."""


class TransactionState(Enum):
    """The state of a transactional id; the values are the record's. Kafka has two more, Dead and
    PrepareEpochFence, which no record ever holds: here an expired id is a tombstone, and a fence is the
    record of the abort."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """Return the state's name in Kafka's answers: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class TransactionPartition(NamedTuple):
    """A partition that a transaction writes to; one of `__consumer_offsets` where it commits offsets."""

    topic: str
    partition: int


class StoredTransaction(Struct, frozen=True, kw_only=True):
    """A transactional id as its record holds it. Times are Unix milliseconds.

    producer_id, producer_epoch: what the owner may write under. In a Prepare state of version 2 the epoch is
        that of the markers, one above the transaction's.
    previous_producer_id: the id before this record's. next_producer_id: in a Prepare state the id that takes
        over with epoch 0, because the epochs are used up; else NO_PRODUCER_ID.
    last_producer_epoch: the owner's epoch before the last bump that it asked for itself; NO_PRODUCER_EPOCH
        where another client or the coordinator bumped.
    version: `transaction.version` of the client; of an end by the coordinator, 2.
    started_ms: when the first partition was added; NO_TIME if none was. updated_ms: of the record.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    started_ms: int = NO_TIME
    partitions: frozenset[TransactionPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    version: int = 0


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id, which takes at most 32767 bytes."""
    out = bytearray(_INT16.pack(_KEY_TYPE))
    write_string(out, transactional_id, is_flexible=False)
    return bytes(out)


def decode_key(key: bytes) -> str:
    """Return the transactional id of a key. Raise NewerTransactionRecord for a key of another type."""

    def read(reader: Reader) -> str:
        key_type = reader.int16()
        if key_type != _KEY_TYPE:
            raise NewerTransactionRecord(
                f"its key is of type {key_type}, which this release, {RELEASES[NEWEST]}, does not know"
            )
        return reader.string(is_flexible=False)

    try:
        return read_whole(read, key, 0, elements_max=REQUEST_ELEMENTS_MAX)
    except MalformedRequest as error:
        raise UnreadableTransactionRecord(str(error)) from error


def encode_transaction(value: StoredTransaction) -> bytes:
    """Return the value of a transactional id, partitions in the order of their names."""
    out = bytearray(
        _FIRST.pack(_VERSION, value.producer_id, value.producer_epoch, value.timeout_ms, value.state.value)
    )
    if value.state is TransactionState.EMPTY:
        write_count(out, -1, is_flexible=True)
    else:
        runs = topic_runs(sorted(value.partitions)) if value.partitions else []
        write_count(out, len(runs), is_flexible=True)
        for run in runs:
            write_string(out, run[0].topic, is_flexible=True)
            write_count(out, len(run), is_flexible=True)
            for _, partition in run:
                out += _INT32.pack(partition)
            out.append(0)
    out += _TIMES.pack(value.updated_ms, value.started_ms)
    tags = [
        (_PREVIOUS_ID_TAG, _INT64, value.previous_producer_id, NO_PRODUCER_ID),
        (_NEXT_ID_TAG, _INT64, value.next_producer_id, NO_PRODUCER_ID),
        (_CLIENT_VERSION_TAG, _INT16, value.version, 0),
        (_NEXT_EPOCH_TAG, _INT16, value.next_producer_epoch, NO_PRODUCER_EPOCH),
        (_LAST_EPOCH_TAG, _INT16, value.last_producer_epoch, NO_PRODUCER_EPOCH),
    ]
    told = [(tag, layout, number) for tag, layout, number, default in tags if number != default]
    write_uvarint(out, len(told))
    for tag, layout, number in told:
        write_uvarint(out, tag)
        write_uvarint(out, layout.size)
        out += layout.pack(number)
    return bytes(out)


def decode_transaction(value: bytes) -> StoredTransaction:
    """Return a transactional id of any version. Raise UnreadableTransactionRecord."""
    try:
        return read_whole(_read_transaction, value, 0, elements_max=REQUEST_ELEMENTS_MAX)
    except MalformedRequest as error:
        raise UnreadableTransactionRecord(str(error)) from error


def _read_transaction(reader: Reader) -> StoredTransaction:
    version = reader.int16()
    if version > _VERSION:
        raise NewerTransactionRecord(
            f"version {version} is of a later release; this one, {RELEASES[NEWEST]}, reads up to version "
            f"{_VERSION}"
        )
    if version < 0:
        raise MalformedRequest(f"version {version} is not known")
    is_flexible = version >= _FLEXIBLE_SINCE
    (producer_id,) = reader.fixed(_INT64)
    producer_epoch = reader.int16()
    timeout_ms = reader.int32()
    status = reader.int8()
    try:
        state = TransactionState(status)
    except ValueError:
        raise MalformedRequest(f"status {status} is not known") from None
    topics = reader.array_count(is_flexible=is_flexible, element_bytes_min=_TOPIC_BYTES_MIN)
    partitions = frozenset(
        partition for _ in range(topics) for partition in _read_topic(reader, is_flexible=is_flexible)
    )
    updated_ms, started_ms = reader.fixed(_TIMES)
    tags = {
        _PREVIOUS_ID_TAG: NO_PRODUCER_ID,
        _NEXT_ID_TAG: NO_PRODUCER_ID,
        _CLIENT_VERSION_TAG: 0,
        _NEXT_EPOCH_TAG: NO_PRODUCER_EPOCH,
        _LAST_EPOCH_TAG: NO_PRODUCER_EPOCH,
    }

    def on_tag(tag: int, content: Reader) -> bool:
        if tag not in tags:
            return False
        is_id = tag in (_PREVIOUS_ID_TAG, _NEXT_ID_TAG)
        (tags[tag],) = content.fixed(_INT64 if is_id else _INT16)
        return True

    if is_flexible:
        reader.tagged_fields(on_tag)
    return StoredTransaction(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=state,
        updated_ms=updated_ms,
        started_ms=started_ms,
        partitions=partitions,
        previous_producer_id=tags[_PREVIOUS_ID_TAG],
        next_producer_id=tags[_NEXT_ID_TAG],
        next_producer_epoch=tags[_NEXT_EPOCH_TAG],
        last_producer_epoch=tags[_LAST_EPOCH_TAG],
        version=tags[_CLIENT_VERSION_TAG],
    )


def _read_topic(reader: Reader, *, is_flexible: bool) -> list[TransactionPartition]:
    topic = reader.string(is_flexible=is_flexible)
    count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=_PARTITION_BYTES)
    partitions = [TransactionPartition(topic, reader.int32()) for _ in range(count)]
    if is_flexible:
        reader.skip_tagged_fields()
    return partitions
