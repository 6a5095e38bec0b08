"""What is measured: one value a case, the same for both sides.

The sizes and shapes were chosen for what they show:

- one record a batch, one request in flight: the round trip itself;
- one record a batch, 16 in flight on one connection: whether a broker goes on while requests wait;
- 8 connections, 4 x 4: many clients, where the cost of one request decides;
- 66 KB: what a client with a linger sends under load; 1 MB: what it sends at most (message.max.bytes);
- `spread`: three partitions, so that each broker leads one and all three serve clients at once. Everywhere
  else one broker leads and two follow.

What people run comes after it, where it can beside one of those: idle brokers, many connections and
partitions, compressed batches, readers far behind, a dead broker, a follower that comes back, TLS, ACLs,
several workers a broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from bench.case import ACKS_LEADER, Case, Kind, Setup
from springtide.wire.compression import Compression

SMALL = 1
"""Records of a small batch."""
LARGE_100B = 600
"""Records of 100 B that make a batch of 64 KiB."""
LARGE_1KB = 64
HUGE_1KB = 1000
"""Records of 1 KB that make a batch just below Kafka's default of message.max.bytes."""

_IDLE = Case(
    name="idle-brokers",
    kind=Kind.IDLE,
    record_bytes=1,
    batch_records=1,
    connections=0,
    length=5.0,
    warmup=1.5,
    is_quick=True,
)
"""With four seconds measured for others: 30 s of quiet, then 20 s."""

IDLE: tuple[Case, ...] = (
    _IDLE,
    replace(_IDLE, name="idle-controller", is_of_controller=True),
    replace(_IDLE, name="idle-1000-connections", connections=1000, length=2.0, is_quick=False),
)

_BASIC: tuple[Case, ...] = (
    # Small batches, acks=all.
    Case(name="produce-all-100b-1x1", record_bytes=100, batch_records=SMALL, is_quick=True),
    Case(name="produce-all-100b-8x1", record_bytes=100, batch_records=SMALL, connections=8, is_quick=True),
    Case(name="produce-all-100b-1x16", record_bytes=100, batch_records=SMALL, in_flight=16, is_quick=True),
    Case(name="produce-all-100b-4x4", record_bytes=100, batch_records=SMALL, connections=4, in_flight=4),
    Case(name="produce-all-1kb-8x1", record_bytes=1024, batch_records=SMALL, connections=8),
    Case(name="produce-all-1kb-1x16", record_bytes=1024, batch_records=SMALL, in_flight=16),
    Case(
        name="produce-all-100b-8x1-spread",
        record_bytes=100,
        batch_records=SMALL,
        connections=8,
        partitions=3,
    ),
    # Small batches, acks=1.
    Case(name="produce-1-100b-1x1", acks=ACKS_LEADER, record_bytes=100, batch_records=SMALL),
    Case(
        name="produce-1-100b-8x1",
        acks=ACKS_LEADER,
        record_bytes=100,
        batch_records=SMALL,
        connections=8,
        is_quick=True,
    ),
    Case(name="produce-1-100b-1x16", acks=ACKS_LEADER, record_bytes=100, batch_records=SMALL, in_flight=16),
    # Large batches.
    Case(name="produce-all-66k-1x8", record_bytes=100, batch_records=LARGE_100B, in_flight=8, is_quick=True),
    Case(name="produce-all-66k-4x4", record_bytes=100, batch_records=LARGE_100B, connections=4, in_flight=4),
    Case(
        name="produce-all-66k-4x4-1kb",
        record_bytes=1024,
        batch_records=LARGE_1KB,
        connections=4,
        in_flight=4,
    ),
    Case(
        name="produce-all-66k-4x4-spread",
        record_bytes=100,
        batch_records=LARGE_100B,
        connections=4,
        in_flight=4,
        partitions=3,
    ),
    Case(
        name="produce-1-66k-4x4",
        acks=ACKS_LEADER,
        record_bytes=100,
        batch_records=LARGE_100B,
        connections=4,
        in_flight=4,
        is_quick=True,
    ),
    Case(
        name="produce-all-1m-2x3",
        record_bytes=1024,
        batch_records=HUGE_1KB,
        connections=2,
        in_flight=3,
        is_quick=True,
    ),
    Case(
        name="produce-1-1m-2x3",
        acks=ACKS_LEADER,
        record_bytes=1024,
        batch_records=HUGE_1KB,
        connections=2,
        in_flight=3,
    ),
    # Reading.
    Case(name="fetch-backlog-1x1", kind=Kind.FETCH, record_bytes=100, batch_records=LARGE_100B),
    Case(
        name="fetch-backlog-4x1",
        kind=Kind.FETCH,
        record_bytes=100,
        batch_records=LARGE_100B,
        connections=4,
        is_quick=True,
    ),
    Case(name="tail-100b-1x1", kind=Kind.TAIL, record_bytes=100, batch_records=SMALL, is_quick=True),
    Case(name="tail-66k-1x8", kind=Kind.TAIL, record_bytes=100, batch_records=LARGE_100B, in_flight=8),
    # A stock client.
    Case(
        name="client-produce-all-100b",
        kind=Kind.CLIENT_PRODUCE,
        record_bytes=100,
        batch_records=LARGE_100B,
        partitions=3,
        is_quick=True,
    ),
    Case(
        name="client-produce-1-100b",
        kind=Kind.CLIENT_PRODUCE,
        acks=ACKS_LEADER,
        record_bytes=100,
        batch_records=LARGE_100B,
        partitions=3,
    ),
    Case(
        name="client-produce-all-1kb",
        kind=Kind.CLIENT_PRODUCE,
        record_bytes=1024,
        batch_records=LARGE_1KB,
        partitions=3,
    ),
    Case(
        name="client-consume-100b",
        kind=Kind.CLIENT_CONSUME,
        record_bytes=100,
        batch_records=LARGE_100B,
        is_quick=True,
    ),
    Case(name="client-consume-1kb", kind=Kind.CLIENT_CONSUME, record_bytes=1024, batch_records=LARGE_1KB),
)


_BASIC_BY_NAME = {case.name: case for case in _BASIC}


def _like(name: str, what: str, **changes: Any) -> Case:
    """Return that basic case with the changes, `what` at the end of its name, to be compared with it."""
    special = {"name": f"{name}-{what}", "beside": name, "is_quick": False}
    return replace(_BASIC_BY_NAME[name], **{**special, **changes})


TLS_CASES = (
    "produce-all-100b-8x1",
    "produce-all-66k-4x4",
    "fetch-backlog-4x1",
    "client-produce-all-100b",
    "client-consume-100b",
)
"""What shows the cost of TLS: many small requests, many bytes in, many bytes out."""
ACL_CASES = ("produce-all-100b-8x1", "produce-all-66k-4x4", "fetch-backlog-4x1")
WORKER_CASES = ("produce-all-100b-8x1-spread", "produce-all-66k-4x4-spread", "client-produce-all-100b")
"""What several processes can share: each of them leads or follows something."""
BESIDE_CASES = {Setup.TLS: TLS_CASES, Setup.WORKERS: (*WORKER_CASES, *ACL_CASES)}
"""What `--tls` and `--workers` run; with workers also what a single partition's leader does, which is one of
them."""
SMALL_8X1, LARGE_4X4 = "produce-all-100b-8x1", "produce-all-66k-4x4"

EVERYDAY: tuple[Case, ...] = (
    Case(
        name="produce-all-100b-1000-slow",
        record_bytes=100,
        batch_records=SMALL,
        connections=1000,
        pause_s=1.0,
        partitions=3,
        length=2.0,
    ),
    Case(
        name="produce-all-100b-50x1-2000p",
        record_bytes=100,
        batch_records=SMALL,
        connections=50,
        partitions=2000,
    ),
    *(
        _like(LARGE_4X4, codec.name.lower(), compression=codec)
        for codec in (Compression.ZSTD, Compression.LZ4)
    ),
    _like(LARGE_4X4, "readers-behind", readers=2),
    *(_like(name, "dead", is_broker_dead=True) for name in (SMALL_8X1, LARGE_4X4)),
    Case(name="catch-up", kind=Kind.CATCH_UP, record_bytes=100, batch_records=LARGE_100B),
    *(_like(name, "tls", setup=Setup.TLS) for name in TLS_CASES),
    *(_like(name, "acls", setup=Setup.ACLS, beside=f"{name}-tls") for name in ACL_CASES),
    *(_like(name, "workers", setup=Setup.WORKERS) for name in WORKER_CASES),
)

CASES: tuple[Case, ...] = (*IDLE, *_BASIC, *EVERYDAY)
"""In the order in which they run: cases of one setup stand together."""


class NoSuchCase(ValueError):
    """A pattern fits no case; the message lists them."""


def select_cases(patterns: Sequence[str], *, is_quick: bool) -> list[Case]:
    """The cases that fit any of the shell patterns, in the report's order; without patterns all, or the quick
    ones.

    Raises NoSuchCase: a misspelt name must not run nothing.
    """
    if not patterns:
        return [case for case in CASES if case.is_quick or not is_quick]
    for pattern in patterns:
        if not any(fnmatchcase(case.name, pattern) for case in CASES):
            names = "\n  ".join(case.name for case in CASES)
            raise NoSuchCase(f"no case fits {pattern!r}; there are\n  {names}")
    return [case for case in CASES if any(fnmatchcase(case.name, pattern) for pattern in patterns)]
