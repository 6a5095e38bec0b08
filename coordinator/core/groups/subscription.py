"""What consumers of the classic protocol say of themselves, and how they are told what to consume: the only
bytes of members that a coordinator reads (ConsumerProtocolSubscription, ConsumerProtocolAssignment).

Both begin with their version. A later version only appends fields, so what follows the known ones is skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from springtide.wire.consumer_protocol import read_places
from springtide.wire.primitives import (
    MALFORMED_CAUSES,
    REQUEST_ELEMENTS_MAX,
    MalformedRequest,
    Reader,
    write_bytes,
    write_count,
    write_string,
)
from springtide.wire.questions import Place

T = TypeVar("T")

_OWNED_SINCE = 1
_GENERATION_SINCE = 2
_RACK_SINCE = 3
_VERSION_MAX = 3


class Subscription(NamedTuple):
    """owned: what the member still consumes; empty before version 1, whose members give up all before they
    join."""

    version: int
    topics: frozenset[str]
    owned: frozenset[Place] = frozenset()
    rack_id: str | None = None


class MemberAssignment(NamedTuple):
    """user_data: of the assignor, for its member."""

    partitions: frozenset[Place]
    user_data: bytes


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a consumer's subscription, None if it does not begin as one."""
    return _whole(lambda reader: _read_topics(reader)[1], metadata)


def read_subscription(metadata: bytes) -> Subscription | None:
    """Return a consumer's subscription, None if it is not one."""
    return _whole(_read_subscription, metadata)


def owned_places(metadata: bytes) -> frozenset[Place]:
    """Return the partitions that a member goes on consuming while its group is rebalanced (KIP-429): with the
    eager protocol none."""
    subscription = read_subscription(metadata)
    return frozenset() if subscription is None else subscription.owned


def read_assignment(assignment: bytes) -> MemberAssignment | None:
    """Return a consumer's assignment, None if it is not one. No bytes are none: it has not been assigned."""
    return _whole(_read_assignment, assignment) if assignment else MemberAssignment(frozenset(), b"")


def write_assignment(partitions: Iterable[Place], version: int) -> bytes:
    """Return an assignment for a member. version: that of its subscription."""
    out = bytearray(max(0, min(version, _VERSION_MAX)).to_bytes(2))
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        by_topic[topic].append(partition)
    write_count(out, len(by_topic), is_flexible=False)
    for topic, numbers in by_topic.items():
        write_string(out, topic, is_flexible=False)
        write_count(out, len(numbers), is_flexible=False)
        for number in numbers:
            out += number.to_bytes(4)
    write_bytes(out, None, is_flexible=False)
    return bytes(out)


def _whole(read: Callable[[Reader], T], raw: bytes) -> T | None:
    try:
        return read(Reader(raw, elements_max=REQUEST_ELEMENTS_MAX))
    except (MalformedRequest, *MALFORMED_CAUSES):
        return None


def _read_topics(reader: Reader) -> tuple[int, frozenset[str]]:
    version = reader.int16()
    count = reader.present_array_count(is_flexible=False, element_bytes_min=2)
    return version, frozenset(reader.string(is_flexible=False) for _ in range(count))


def _read_subscription(reader: Reader) -> Subscription:
    version, topics = _read_topics(reader)
    reader.nullable_view(is_flexible=False)  # the assignor's
    owned = frozenset(read_places(reader)) if version >= _OWNED_SINCE else frozenset()
    if version >= _GENERATION_SINCE:
        reader.int32()  # of what it owns
    rack_id = reader.nullable_string(is_flexible=False) if version >= _RACK_SINCE else None
    return Subscription(version, topics, owned, rack_id)


def _read_assignment(reader: Reader) -> MemberAssignment:
    reader.int16()
    partitions = frozenset(read_places(reader))
    return MemberAssignment(partitions, bytes(reader.nullable_view(is_flexible=False) or b""))
