"""The place of the leader, inside the answers that say "not here" (KIP-951).

Produce (v10) and Fetch (v12, endpoints from v16) can name the current leader of each refused partition and
the address of each leader named, so a client moves on without a Metadata round trip. All of it travels in
tagged fields, which older clients skip.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from .primitives import write_string, write_uvarint

_LEADER = struct.Struct(">iib")
_ENDPOINTS_TAG = 0


class CurrentLeader(NamedTuple):
    """A partition's leader as far as this broker knows. -1: unknown."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """The address at which clients reach a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_leader_tag(leader: CurrentLeader, *, tag: int) -> bytes:
    """Return tag, size and content of a `current_leader` field."""
    return bytes((tag, _LEADER.size)) + _LEADER.pack(leader.leader_id, leader.leader_epoch, 0)


def encode_endpoints_section(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the tagged fields that end a response body: the endpoints, or none."""
    if not endpoints:
        return b"\x00"
    content = bytearray()
    write_uvarint(content, len(endpoints) + 1)
    for endpoint in endpoints:
        content += struct.pack(">i", endpoint.node_id)
        write_string(content, endpoint.host, is_flexible=True)
        content += struct.pack(">i", endpoint.port)
        write_string(content, endpoint.rack, is_flexible=True)
        content.append(0)
    section = bytearray((1, _ENDPOINTS_TAG))
    write_uvarint(section, len(content))
    return bytes(section + content)
