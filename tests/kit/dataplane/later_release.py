"""Files and records as a later release would write them."""

from __future__ import annotations

import struct

from crc32c import crc32c

from dataplane.core.compaction.rounds import CONTROL_TYPE_ROUND, Round, encode_round
from dataplane.core.producer_state import ProducerStates
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.records import NewRecord, encode_batch


def snapshot_of_version(version: int) -> bytes:
    """A producer snapshot as a later release would write it."""
    covered = ProducerStates().encode()[10:]
    head = struct.pack(">H", version)
    return struct.pack(">4sHI", b"SPRD", version, crc32c(covered, crc32c(head))) + covered


def round_of_version(version: int, value: bytes | None = None, *, base_offset: int = 7) -> bytes:
    whole = encode_round(Round(5, 1, 0, 0), base_offset=base_offset, leader_epoch=LeaderEpoch(1))
    if version == 0:
        return whole
    value = version.to_bytes(2, "big", signed=True) + b"of next year" if value is None else value
    key = (0).to_bytes(2, "big") + CONTROL_TYPE_ROUND.to_bytes(2, "big")
    record = NewRecord(key, value, timestamp=1)
    return encode_batch((record,), is_control=True, base_offset=base_offset, leader_epoch=LeaderEpoch(1))
