"""The shard that a name belongs to, by Kafka's rule: tools compute the partition of a group alike, and of a
transactional id."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC})
"""Clients leave them out of patterns and listings."""

HASHED_CHARS_MAX = 4_000_000
"""Characters in the names of one request. They take a third of a second; a request has room for 25 times as
many."""

KEPT_CHARS_MAX = 256

_INT_BITS = 32
_HASH_FACTOR = 31


def may_be_hashed(names: Iterable[str]) -> bool:
    """Return whether the names of one request are short enough, all together."""
    return sum(map(len, names)) <= HASHED_CHARS_MAX


def shard_of(name: str, shards: int) -> int:
    """Return the partition of GROUPS_TOPIC (TRANSACTIONS_TOPIC) that holds a group (a transactional id): the
    absolute value of Java's hash of the name, modulo the partitions. The hash that has no absolute value in
    32 bits, -2^31, counts as 0."""
    hashed = _kept_hash(name) if len(name) <= KEPT_CHARS_MAX else java_hash(name)
    return 0 if hashed == -(1 << (_INT_BITS - 1)) else abs(hashed) % shards


@lru_cache(maxsize=10_000)
def _kept_hash(name: str) -> int:
    """Return the hash of a short name, from memory for those that are asked for again and again: 2 µs a
    heartbeat and commit."""
    return java_hash(name)


def java_hash(name: str) -> int:
    """Return what Java's String.hashCode returns. It counts a character beyond U+FFFF twice."""
    if name.isascii():
        units: Iterable[int] = name.encode()
    else:
        encoded = name.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    hashed = 0
    for unit in units:
        hashed = (hashed * _HASH_FACTOR + unit) & 0xFFFFFFFF
    return hashed - (1 << _INT_BITS) if hashed >> (_INT_BITS - 1) else hashed
