"""What members of the classic protocol are assigned, as their leader says it: ConsumerProtocolAssignment, in
all versions.

Clients make the bytes. What is not in the format says nothing.
"""

from __future__ import annotations

import struct

from springtide.wire.primitives import MALFORMED_CAUSES, REQUEST_ELEMENTS_MAX, MalformedRequest, Reader
from springtide.wire.questions import Place


def assigned_places(assignment: bytes) -> tuple[Place, ...]:
    """Return the partitions of an assignment."""
    reader = Reader(assignment, elements_max=REQUEST_ELEMENTS_MAX)
    try:
        reader.int16()  # the version
        return read_places(reader)
    except (MalformedRequest, *MALFORMED_CAUSES):
        return ()


def read_places(reader: Reader) -> tuple[Place, ...]:
    """Read partitions by topic, as assignments and subscriptions have them."""
    found: list[Place] = []
    for _ in range(reader.present_array_count(is_flexible=False, element_bytes_min=6)):
        topic = reader.string(is_flexible=False)
        count = reader.present_array_count(is_flexible=False, element_bytes_min=4)
        partitions = struct.unpack(f">{count}i", reader.take(4 * count))
        found += [(topic, partition) for partition in partitions]
    return tuple(found)
