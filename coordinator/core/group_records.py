"""The records of `__consumer_offsets`, byte for byte Kafka's, because backup and lag tools read them.

A key is an int16 type and fields; a value is an int16 version and fields; no value is a tombstone. Types 0
and 1 are committed offsets, type 2 the group of the classic protocol. What Kafka 4.3 writes is written:
offsets in version 4 (version 1 where a client names an expiry), groups in version 3. All versions up to 4 are
read. Values of `consumer` groups are in consumer_group_records.py.

Bytes are checked before anything is allocated for them. UnreadableGroupRecord is the only exception, and
NewerGroupRecord one of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from coordinator.core.machine import UnreadableState
from springtide.levels import NEWEST, RELEASES
from springtide.wire.primitives import (
    REQUEST_ELEMENTS_MAX,
    MalformedRequest,
    Reader,
    read_whole,
    uuid_bytes,
    write_bytes,
    write_count,
    write_string,
    write_uvarint,
)

T = TypeVar("T")

NO_LEADER_EPOCH = -1
_LEGACY_OFFSET_TYPE = 0
_OFFSET_TYPE = 1
_GROUP_TYPE = 2
PENDING_TYPE = 32_001
ENDED_TYPE = 32_002
"""Ours: see pending_records.py."""

_OFFSET_VERSION = 4
_OFFSET_VERSION_WITH_EXPIRY = 1
_GROUP_VERSION = 3
_VERSION_MAX = 4
_FLEXIBLE_SINCE = 4
_TOPIC_ID_TAG = 0
_NO_TIME = -1
_MEMBER_BYTES_MIN = 15
"""The least that a member takes on the wire: an empty one of version 4."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_AND_EPOCH = struct.Struct(">hqi")
_OFFSET_TYPE_BYTES = _INT16.pack(_OFFSET_TYPE)
_USUAL_OFFSET = struct.Struct(">hqiBq3s16s")
_NO_TEXT = 1
_ID_TAGS = bytes((1, _TOPIC_ID_TAG, 16))
"""One tagged field: its tag and its size."""
_TIMEOUTS = struct.Struct(">ii")


class ConsumerRecord(IntEnum):
    """The types of the records of `consumer` groups."""

    EPOCH = 3
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    PATTERN = 16


_CONSUMER_TYPES = {int(record): record for record in ConsumerRecord}


class UnreadableGroupRecord(UnreadableState):
    """The bytes are no key or value of `__consumer_offsets` that Kafka 4.3 can read."""


class NewerGroupRecord(UnreadableGroupRecord):
    """The record is of a type or version that only a later release knows."""


class OffsetKey(NamedTuple):
    """Names a committed offset. is_legacy: type 0, which Kafka wrote before 0.9 and we never."""

    group_id: str
    topic: str
    partition: int
    is_legacy: bool = False


class GroupKey(NamedTuple):
    """Names a group of the classic protocol."""

    group_id: str


class ConsumerGroupKey(NamedTuple):
    """Names a record of a `consumer` group. name: the member's id, or the pattern; empty where the record is
    the group's."""

    record: ConsumerRecord
    group_id: str
    name: str = ""


class PendingKey(NamedTuple):
    """Names what a producer's open transaction commits of a partition (pending_records.py)."""

    producer_id: int
    place: OffsetKey


class EndedKey(NamedTuple):
    """Names a producer whose transactions have ended here (pending_records.py)."""

    producer_id: int


class OtherKey(NamedTuple):
    """A key of another type: of Kafka's share or streams groups, or of a later release."""

    key_type: int


RecordKey: TypeAlias = OffsetKey | GroupKey | ConsumerGroupKey | PendingKey | EndedKey | OtherKey


class CommittedOffset(NamedTuple):
    """A consumer group's committed offset of one partition.

    committed_ms, expires_ms: milliseconds since the epoch; expires_ms only where an old client asked for it.
    topic_id: the topic's at the time of the commit, None if it was not told.
    """

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member of a group as its record holds it. subscription: its metadata for the group's protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation of a group as its record holds it. changed_ms: when the group came into this state, -1 if
    it is not known. An empty group has neither protocol nor leader."""

    protocol_type: str
    generation_id: int
    protocol: str | None
    leader: str | None
    changed_ms: int
    members: tuple[StoredMember, ...]


# --- keys ------------------------------------------------------------------------------------------


def encode_offset_key(key: OffsetKey) -> bytes:
    """Return the key of a committed offset; the texts take at most 32767 bytes each."""
    out = bytearray(_INT16.pack(_LEGACY_OFFSET_TYPE if key.is_legacy else _OFFSET_TYPE))
    write_string(out, key.group_id, is_flexible=False)
    write_string(out, key.topic, is_flexible=False)
    out += _INT32.pack(key.partition)
    return bytes(out)


def encode_group_key(key: GroupKey) -> bytes:
    """Return the key of a group; its id takes at most 32767 bytes."""
    out = bytearray(_INT16.pack(_GROUP_TYPE))
    write_string(out, key.group_id, is_flexible=False)
    return bytes(out)


def decode_key(key: bytes) -> RecordKey:
    """Return what a record's key names. Raise UnreadableGroupRecord for bytes that are no key."""
    if key[:2] == _OFFSET_TYPE_BYTES:  # nearly all of a replay
        topic_at = 6 + int.from_bytes(key[2:4])
        end = topic_at + int.from_bytes(key[topic_at - 2 : topic_at])
        if len(key) == end + _INT32.size:
            try:
                group_id, topic = key[4 : topic_at - 2].decode(), key[topic_at:end].decode()
            except UnicodeDecodeError as error:
                raise UnreadableGroupRecord(str(error)) from error
            return OffsetKey(group_id, topic, *_INT32.unpack_from(key, end))
    return _read(_read_key, key)


def _read_key(reader: Reader) -> RecordKey:
    key_type = reader.int16()
    if key_type in (_LEGACY_OFFSET_TYPE, _OFFSET_TYPE):
        return _read_offset_key(reader, is_legacy=key_type == _LEGACY_OFFSET_TYPE)
    if key_type == _GROUP_TYPE:
        return GroupKey(reader.string(is_flexible=False))
    if (record := _CONSUMER_TYPES.get(key_type)) is not None:
        is_of_group = record in (ConsumerRecord.EPOCH, ConsumerRecord.TARGET_EPOCH)
        group_id = reader.string(is_flexible=False)
        return ConsumerGroupKey(record, group_id, "" if is_of_group else reader.string(is_flexible=False))
    if key_type == PENDING_TYPE:
        return PendingKey(reader.fixed(_INT64)[0], _read_offset_key(reader))
    if key_type == ENDED_TYPE:
        return EndedKey(*reader.fixed(_INT64))
    reader.take(reader.remaining)
    return OtherKey(key_type)


def _read_offset_key(reader: Reader, *, is_legacy: bool = False) -> OffsetKey:
    group_id = reader.string(is_flexible=False)
    topic = reader.string(is_flexible=False)
    return OffsetKey(group_id, topic, reader.int32(), is_legacy=is_legacy)


# --- committed offsets -----------------------------------------------------------------------------


def encode_offset(value: CommittedOffset) -> bytes:
    """Return the value of a committed offset. One with an expiry holds neither leader epoch nor topic id:
    clients that ask for an expiry do not send them."""
    if value.expires_ms is not None:
        out = bytearray(_INT16.pack(_OFFSET_VERSION_WITH_EXPIRY) + _INT64.pack(value.offset))
        write_string(out, value.metadata, is_flexible=False)
        out += _INT64.pack(value.committed_ms) + _INT64.pack(value.expires_ms)
        return bytes(out)
    if not value.metadata and value.topic_id is not None:  # nearly always
        offset, epoch, committed_ms = value.offset, value.leader_epoch, value.committed_ms
        topic_id = value.topic_id.bytes
        return _USUAL_OFFSET.pack(_OFFSET_VERSION, offset, epoch, _NO_TEXT, committed_ms, _ID_TAGS, topic_id)
    out = bytearray(_OFFSET_AND_EPOCH.pack(_OFFSET_VERSION, value.offset, value.leader_epoch))
    write_string(out, value.metadata, is_flexible=True)
    out += _INT64.pack(value.committed_ms)
    if value.topic_id is None:
        out.append(0)
    else:
        topic_id = uuid_bytes(value.topic_id)
        for number in (1, _TOPIC_ID_TAG, len(topic_id)):
            write_uvarint(out, number)
        out += topic_id
    return bytes(out)


def decode_offset(value: bytes) -> CommittedOffset:
    """Return a committed offset of any version. Raise UnreadableGroupRecord."""
    return _decode_usual_offset(value) or _read(_read_offset, value)


def _decode_usual_offset(value: bytes) -> CommittedOffset | None:
    """Return an offset as it is written here with a topic id and without metadata, None for any other: nearly
    all records of a replay are such, and it reads them several times as fast this way."""
    if len(value) != _USUAL_OFFSET.size:
        return None
    version, offset, leader_epoch, metadata, committed_ms, tags, topic_id = _USUAL_OFFSET.unpack(value)
    if (version, metadata, tags) != (_OFFSET_VERSION, _NO_TEXT, _ID_TAGS):
        return None
    return CommittedOffset(offset, leader_epoch, "", committed_ms, None, _topic_id(topic_id))


@lru_cache(maxsize=1_000)
def _topic_id(raw: bytes) -> UUID | None:
    return Reader(raw).uuid()


def _read_offset(reader: Reader) -> CommittedOffset:
    version = _read_version(reader)
    is_flexible = version >= _FLEXIBLE_SINCE
    (offset,) = reader.fixed(_INT64)
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.string(is_flexible=is_flexible)
    (committed_ms,) = reader.fixed(_INT64)
    expires_ms = reader.fixed(_INT64)[0] if version == _OFFSET_VERSION_WITH_EXPIRY else _NO_TIME
    topic_id: UUID | None = None

    def on_tag(tag: int, content: Reader) -> bool:
        nonlocal topic_id
        if tag != _TOPIC_ID_TAG:
            return False
        topic_id = content.uuid()
        return True

    if is_flexible:
        reader.tagged_fields(on_tag)
    return CommittedOffset(
        offset, leader_epoch, metadata, committed_ms, None if expires_ms == _NO_TIME else expires_ms, topic_id
    )


# --- groups ----------------------------------------------------------------------------------------


def encode_group(value: StoredGroup) -> bytes:
    """Return the value of a group; the texts take at most 32767 bytes each."""
    out = bytearray(_INT16.pack(_GROUP_VERSION))
    write_string(out, value.protocol_type, is_flexible=False)
    out += _INT32.pack(value.generation_id)
    write_string(out, value.protocol, is_flexible=False)
    write_string(out, value.leader, is_flexible=False)
    out += _INT64.pack(value.changed_ms)
    write_count(out, len(value.members), is_flexible=False)
    for member in value.members:
        for text in (member.member_id, member.instance_id, member.client_id, member.client_host):
            write_string(out, text, is_flexible=False)
        out += _TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms)
        write_bytes(out, member.subscription, is_flexible=False)
        write_bytes(out, member.assignment, is_flexible=False)
    return bytes(out)


def decode_group(value: bytes) -> StoredGroup:
    """Return a group of any version. Raise UnreadableGroupRecord."""
    return _read(_read_group, value)


def _read_group(reader: Reader) -> StoredGroup:
    version = _read_version(reader)
    is_flexible = version >= _FLEXIBLE_SINCE
    protocol_type = reader.string(is_flexible=is_flexible)
    generation_id = reader.int32()
    protocol = reader.nullable_string(is_flexible=is_flexible)
    leader = reader.nullable_string(is_flexible=is_flexible)
    changed_ms = reader.fixed(_INT64)[0] if version >= 2 else _NO_TIME
    count = reader.present_array_count(is_flexible=is_flexible, element_bytes_min=_MEMBER_BYTES_MIN)
    members = tuple(_read_member(reader, version) for _ in range(count))
    if is_flexible:
        reader.skip_tagged_fields()
    return StoredGroup(protocol_type, generation_id, protocol, leader, changed_ms, members)


def _read_member(reader: Reader, version: int) -> StoredMember:
    is_flexible = version >= _FLEXIBLE_SINCE
    member_id = reader.string(is_flexible=is_flexible)
    instance_id = reader.nullable_string(is_flexible=is_flexible) if version >= 3 else None
    client_id = reader.string(is_flexible=is_flexible)
    client_host = reader.string(is_flexible=is_flexible)
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    subscription, assignment = (_read_bytes(reader, is_flexible=is_flexible) for _ in range(2))
    if is_flexible:
        reader.skip_tagged_fields()
    return StoredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        # Version 0 knows no rebalance timeout: then a member has had as long as its session lasts.
        session_timeout_ms if rebalance_timeout_ms in (None, -1) else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


# --- both ------------------------------------------------------------------------------------------


def _read(read: Callable[[Reader], T], buffer: bytes) -> T:
    try:
        return read_whole(read, buffer, 0, elements_max=REQUEST_ELEMENTS_MAX)
    except MalformedRequest as error:
        raise UnreadableGroupRecord(str(error)) from error


def _read_version(reader: Reader) -> int:
    version = reader.int16()
    if version > _VERSION_MAX:
        raise NewerGroupRecord(
            f"version {version} is of a later release; this one, {RELEASES[NEWEST]}, reads up to version "
            f"{_VERSION_MAX}"
        )
    if version < 0:
        raise MalformedRequest(f"version {version} is not known")
    return version


def _read_bytes(reader: Reader, *, is_flexible: bool) -> bytes:
    view = reader.nullable_view(is_flexible=is_flexible)
    if view is None:
        raise MalformedRequest("null bytes where the schema has none")
    return bytes(view)
