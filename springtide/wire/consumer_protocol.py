"""What consumers of the classic protocol tell each other through their coordinator, in all versions:
ConsumerProtocolAssignment and ConsumerProtocolSubscription.

Clients make the bytes. What is not in the format says nothing.
"""

from __future__ import annotations

import struct

from springtide.wire.primitives import MALFORMED_CAUSES, REQUEST_ELEMENTS_MAX, MalformedRequest, Reader
from springtide.wire.questions import Place

_OWNED_SINCE = 1


def assigned_places(assignment: bytes) -> tuple[Place, ...]:
    """Return the partitions of an assignment."""
    reader = Reader(assignment, elements_max=REQUEST_ELEMENTS_MAX)
    try:
        reader.int16()  # the version
        return _places(reader)
    except (MalformedRequest, *MALFORMED_CAUSES):
        return ()


def owned_places(subscription: bytes) -> tuple[Place, ...]:
    """Return the partitions that a member goes on consuming while its group is rebalanced (KIP-429): with the
    eager protocol none."""
    reader = Reader(subscription, elements_max=REQUEST_ELEMENTS_MAX)
    try:
        if reader.int16() < _OWNED_SINCE:
            return ()
        for _ in range(reader.present_array_count(is_flexible=False, element_bytes_min=2)):
            reader.string(is_flexible=False)
        reader.nullable_view(is_flexible=False)
        return _places(reader)
    except (MalformedRequest, *MALFORMED_CAUSES):
        return ()


def _places(reader: Reader) -> tuple[Place, ...]:
    found: list[Place] = []
    for _ in range(reader.array_count(is_flexible=False, element_bytes_min=6)):
        topic = reader.string(is_flexible=False)
        count = reader.array_count(is_flexible=False, element_bytes_min=4)
        partitions = struct.unpack(f">{max(0, count)}i", reader.take(4 * max(0, count)))
        found += [(topic, partition) for partition in partitions]
    return tuple(found)
