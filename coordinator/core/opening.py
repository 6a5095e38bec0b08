"""The record that begins a coordinator's ownership of a shard's log.

A coordinator appends it as the first batch of a writer that the controller has just named, with a nonce that
no other opening has, and then reads the log until it finds that nonce. What stands before it is all that
earlier owners have written, and nothing of them can follow. Compaction keeps the last one, since all have one
key.
"""

from __future__ import annotations

import struct

from coordinator.core.machine import ShardRecord

_KEY_TYPE = 32_000
"""Reserved: Kafka's types of keys in coordinator topics are small numbers, and its tools skip others."""
_VERSION = 0

OPENING_KEY = struct.pack(">h", _KEY_TYPE)


def opening_record(nonce: bytes) -> ShardRecord:
    """Return the record: key int16 type; value int16 version and the nonce."""
    return ShardRecord(OPENING_KEY, struct.pack(">h", _VERSION) + nonce)
