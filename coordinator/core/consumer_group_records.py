"""The records of `consumer` groups (KIP-848) in `__consumer_offsets`, byte for byte Kafka's.

    3   group               -> epoch, hash of the subscribed topics
    5   group, member       -> what the member is and subscribes
    6   group               -> epoch of the target assignment, and when it was made
    7   group, member       -> the member's part of the target assignment
    8   group, member       -> what the member has now, and at which epoch
    16  group, pattern      -> the topics that a pattern stands for

All values have version 0 and are flexible. New fields come as tags, and those of later releases are skipped,
as Kafka skips them. Type 4 is retired: tombstones of it are skipped with those of other types.

Bytes are checked as those of group_records.py are, and the exceptions are the same.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from coordinator.core.group_records import (
    ConsumerGroupKey,
    ConsumerRecord,
    NewerGroupRecord,
    UnreadableGroupRecord,
)
from coordinator.core.topic_partitions import PartitionsByTopic, StampedPartitions, by_topic
from springtide.levels import NEWEST, RELEASES
from springtide.wire.primitives import (
    RESPONSE_ELEMENTS_MAX,
    MalformedRequest,
    Reader,
    read_whole,
    write_bytes,
    write_count,
    write_string,
    write_uvarint,
)

T = TypeVar("T")

_VERSION = 0
_TAG = 0
"""Each value has at most one tagged field."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_HEAD = struct.Struct(">hi")
_CURRENT_HEAD = struct.Struct(">hiib")
_PRESENT = 1
"""The first byte of a structure that could be null."""
_TOPIC_BYTES_MIN = 18
_PROTOCOL_BYTES_MIN = 3


class GroupEpoch(NamedTuple):
    """topics_hash: of the topics that the members subscribe, as they were at this epoch; 0: of none. Kafka's
    metadata hash (KIP-1101)."""

    epoch: int
    topics_hash: int = 0


class TargetEpoch(NamedTuple):
    """made_ms: Unix time; 0: not known. Kafka's assignment timestamp."""

    epoch: int
    made_ms: int = 0


class ResolvedPattern(NamedTuple):
    """topics: sorted. version: of the metadata that they are from. resolved_ms: Unix time."""

    topics: tuple[str, ...]
    version: int
    resolved_ms: int


class ClassicMember(NamedTuple):
    """What a member of the classic protocol has beside. protocols: name and metadata, as it prefers them."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """What a member is and subscribes. topics: sorted. pattern: of topics, Kafka's subscribed topic regex; ""
    and None are none.
    rebalance_timeout_ms: how long it may take to give up partitions. assignor: that it asks for.
    classic: None for a member of the consumer protocol."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member has. state: a MemberState, or the number of a later release.

    previous_epoch: before the present one, of which the member may not have heard yet.
    revoking: partitions that it was asked to give up and may still consume; pending revocation in Kafka.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 0
    assigned: StampedPartitions = field(default_factory=dict)
    revoking: StampedPartitions = field(default_factory=dict)


ConsumerValue: TypeAlias = (
    GroupEpoch | ConsumerMember | TargetEpoch | PartitionsByTopic | CurrentAssignment | ResolvedPattern
)


# --- writing ---------------------------------------------------------------------------------------


def encode_consumer_key(key: ConsumerGroupKey) -> bytes:
    """Return the key of a record; its texts take at most 32767 bytes each."""
    out = bytearray(_INT16.pack(key.record))
    write_string(out, key.group_id, is_flexible=False)
    if key.record not in (ConsumerRecord.EPOCH, ConsumerRecord.TARGET_EPOCH):
        write_string(out, key.name, is_flexible=False)
    return bytes(out)


def encode_consumer_value(value: ConsumerValue) -> bytes:
    match value:
        case GroupEpoch() | TargetEpoch():
            return _encode_numbers(*value)
        case ConsumerMember():
            return _encode_member(value)
        case CurrentAssignment():
            return _encode_current(value)
        case ResolvedPattern():
            return _encode_pattern(value)
        case _:
            return _encode_target(value)


def _encode_member(value: ConsumerMember) -> bytes:
    out = bytearray(_INT16.pack(_VERSION))
    for text in (value.instance_id, value.rack_id, value.client_id, value.client_host):
        write_string(out, text, is_flexible=True)
    _write_strings(out, value.topics)
    write_string(out, value.pattern, is_flexible=True)
    out += _INT32.pack(value.rebalance_timeout_ms)
    write_string(out, value.assignor, is_flexible=True)
    _write_tag(out, b"" if value.classic is None else _encode_classic(value.classic))
    return bytes(out)


def _encode_target(value: PartitionsByTopic) -> bytes:
    out = bytearray(_INT16.pack(_VERSION))
    write_count(out, len(value), is_flexible=True)
    for topic_id in _sorted(value):
        _write_topic(out, topic_id, value[topic_id])
        out.append(0)
    out.append(0)
    return bytes(out)


def _encode_current(value: CurrentAssignment) -> bytes:
    out = bytearray(_CURRENT_HEAD.pack(_VERSION, value.epoch, value.previous_epoch, value.state))
    for stamped in (value.assigned, value.revoking):
        write_count(out, len(stamped), is_flexible=True)
        for topic_id in _sorted(stamped):
            epochs = stamped[topic_id]
            partitions = sorted(epochs)
            _write_topic(out, topic_id, partitions)
            tagged = bytearray()
            _write_numbers(tagged, [epochs[one] for one in partitions])
            _write_tag(out, tagged)
    out.append(0)
    return bytes(out)


def _encode_pattern(value: ResolvedPattern) -> bytes:
    out = bytearray(_INT16.pack(_VERSION))
    _write_strings(out, value.topics)
    out += _INT64.pack(value.version) + _INT64.pack(value.resolved_ms)
    out.append(0)
    return bytes(out)


def _encode_numbers(epoch: int, tagged: int) -> bytes:
    out = bytearray(_HEAD.pack(_VERSION, epoch))
    _write_tag(out, _INT64.pack(tagged) if tagged else b"")
    return bytes(out)


def _encode_classic(value: ClassicMember) -> bytes:
    out = bytearray((_PRESENT,)) + _INT32.pack(value.session_timeout_ms)
    write_count(out, len(value.protocols), is_flexible=True)
    for name, metadata in value.protocols:
        write_string(out, name, is_flexible=True)
        write_bytes(out, metadata, is_flexible=True)
        out.append(0)
    out.append(0)
    return bytes(out)


def _sorted(topic_ids: Iterable[UUID]) -> list[UUID]:
    """Return topic ids in the order in which they are written: equal values have equal bytes."""
    return sorted(topic_ids, key=attrgetter("int"))


def _write_topic(out: bytearray, topic_id: UUID, partitions: Sequence[int]) -> None:
    out += topic_id.bytes
    _write_numbers(out, partitions)


def _write_numbers(out: bytearray, numbers: Sequence[int]) -> None:
    write_count(out, len(numbers), is_flexible=True)
    out += struct.pack(f">{len(numbers)}i", *numbers)


def _write_strings(out: bytearray, texts: tuple[str, ...]) -> None:
    write_count(out, len(texts), is_flexible=True)
    for text in texts:
        write_string(out, text, is_flexible=True)


def _write_tag(out: bytearray, content: bytes | bytearray) -> None:
    """Append a section of tagged fields: the one field, or none where it has no content."""
    if not content:
        out.append(0)
        return
    out += bytes((1, _TAG))
    write_uvarint(out, len(content))
    out += content


# --- reading ---------------------------------------------------------------------------------------


def decode_consumer_value(record: ConsumerRecord, value: bytes) -> ConsumerValue:
    """Return a record's value. Raise UnreadableGroupRecord."""
    return _read(_READ[record], value)


def _read(read: Callable[[Reader], ConsumerValue], value: bytes) -> ConsumerValue:
    def read_version(reader: Reader) -> ConsumerValue:
        version = reader.int16()
        if version > _VERSION:
            raise NewerGroupRecord(
                f"version {version} of a consumer group's record is later than {RELEASES[NEWEST]}'s"
            )
        if version < 0:
            raise MalformedRequest(f"version {version} is not known")
        return read(reader)

    try:
        return read_whole(read_version, value, 0, elements_max=RESPONSE_ELEMENTS_MAX)
    except MalformedRequest as error:
        raise UnreadableGroupRecord(str(error)) from error


def _read_number(reader: Reader) -> tuple[int, int]:
    epoch = reader.int32()
    return epoch, _read_tag(reader, lambda content: content.fixed(_INT64)[0], 0)


def _read_member(reader: Reader) -> ConsumerMember:
    instance_id, rack_id = (reader.nullable_string(is_flexible=True) for _ in range(2))
    client_id, client_host = (reader.string(is_flexible=True) for _ in range(2))
    topics = _read_strings(reader)
    pattern = reader.nullable_string(is_flexible=True)
    rebalance_timeout_ms = reader.int32()
    assignor = reader.nullable_string(is_flexible=True)
    return ConsumerMember(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=topics,
        pattern=pattern,
        rebalance_timeout_ms=rebalance_timeout_ms,
        assignor=assignor,
        classic=_read_tag(reader, _read_classic, None),
    )


def _read_classic(reader: Reader) -> ClassicMember | None:
    if reader.int8() != _PRESENT:
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.present_array_count(is_flexible=True, element_bytes_min=_PROTOCOL_BYTES_MIN)):
        name, metadata = reader.string(is_flexible=True), reader.nullable_view(is_flexible=True)
        if metadata is None:
            raise MalformedRequest("null metadata where the schema has none")
        protocols.append((name, bytes(metadata)))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return ClassicMember(session_timeout_ms, tuple(protocols))


def _read_target(reader: Reader) -> PartitionsByTopic:
    found = []
    for _ in range(reader.present_array_count(is_flexible=True, element_bytes_min=_TOPIC_BYTES_MIN)):
        found.append(_read_topic(reader))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return by_topic(found)


def _read_current(reader: Reader) -> CurrentAssignment:
    epoch, previous_epoch = reader.int32(), reader.int32()
    state = reader.int8()
    assigned, revoking = (_read_stamped(reader, epoch) for _ in range(2))
    reader.skip_tagged_fields()
    return CurrentAssignment(
        epoch=epoch, previous_epoch=previous_epoch, state=state, assigned=assigned, revoking=revoking
    )


def _read_stamped(reader: Reader, epoch: int) -> StampedPartitions:
    """Read partitions with their epochs; Kafka before KIP-1251 wrote none: then they are the member's."""
    found: defaultdict[UUID, dict[int, int]] = defaultdict(dict)
    for _ in range(reader.present_array_count(is_flexible=True, element_bytes_min=_TOPIC_BYTES_MIN)):
        topic_id, partitions = _read_topic(reader)
        epochs = _read_tag(reader, _read_nullable_numbers, None)
        if epochs is not None and len(epochs) != len(partitions):
            raise MalformedRequest(f"{len(epochs)} epochs of {len(partitions)} partitions")
        found[topic_id].update(zip(partitions, epochs or repeat(epoch, len(partitions)), strict=True))
    return {topic_id: own for topic_id, own in found.items() if own}


def _read_pattern(reader: Reader) -> ResolvedPattern:
    topics = _read_strings(reader)
    (version,), (resolved_ms,) = reader.fixed(_INT64), reader.fixed(_INT64)
    reader.skip_tagged_fields()
    return ResolvedPattern(topics, version, resolved_ms)


def _read_topic(reader: Reader) -> tuple[UUID, tuple[int, ...]]:
    topic_id = reader.uuid()
    partitions = _read_nullable_numbers(reader)
    if topic_id is None or partitions is None:
        raise MalformedRequest("a topic without an id or without partitions")
    return topic_id, partitions


def _read_nullable_numbers(reader: Reader) -> tuple[int, ...] | None:
    count = reader.array_count(is_flexible=True, element_bytes_min=_INT32.size)
    return None if count < 0 else struct.unpack(f">{count}i", reader.take(count * _INT32.size))


def _read_strings(reader: Reader) -> tuple[str, ...]:
    count = reader.present_array_count(is_flexible=True, element_bytes_min=1)
    return tuple(reader.string(is_flexible=True) for _ in range(count))


def _read_tag(reader: Reader, read: Callable[[Reader], T], absent: T) -> T:
    """Read a section of tagged fields for the one that is known."""
    value = absent

    def on_tag(tag: int, content: Reader) -> bool:
        nonlocal value
        if tag != _TAG:
            return False
        value = read(content)
        return True

    reader.tagged_fields(on_tag)
    return value


_READ: dict[ConsumerRecord, Callable[[Reader], ConsumerValue]] = {
    ConsumerRecord.EPOCH: lambda reader: GroupEpoch(*_read_number(reader)),
    ConsumerRecord.MEMBER: _read_member,
    ConsumerRecord.TARGET_EPOCH: lambda reader: TargetEpoch(*_read_number(reader)),
    ConsumerRecord.TARGET: _read_target,
    ConsumerRecord.CURRENT: _read_current,
    ConsumerRecord.PATTERN: _read_pattern,
}
