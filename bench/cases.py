"""What is measured: one value a case, the same for both sides.

A case says what one load does and nothing about where. Names are stable, because people compare figures
across months by them: `<what>-<acks>-<batch>-<connections>x<in flight>`.

The sizes and shapes were chosen for what they show:

- one record a batch, one request in flight: the round trip itself;
- one record a batch, 16 in flight on one connection: whether a broker goes on while requests wait;
- 8 connections, 4 x 4: many clients, where the cost of one request decides;
- 66 KB: what a client with a linger sends under load; 1 MB: what it sends at most (message.max.bytes);
- `spread`: three partitions, so that each broker leads one and all three serve clients at once. Everywhere
  else one broker leads and two follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

ACKS_ALL = -1
ACKS_LEADER = 1

FILL_BYTES = 192 * 1024 * 1024
"""What backlog cases read, again and again: small enough to stay in the page cache of any machine."""
FILL_BYTES_QUICK = 48 * 1024 * 1024


class Kind(StrEnum):
    """Which load runs it."""

    PRODUCE = "produce"
    """Raw protocol; latency is that of a Produce request."""
    FETCH = "fetch"
    """Raw protocol, reading what is there from its beginning to its end and again; latency of a Fetch."""
    TAIL = "tail"
    """Raw protocol, one connection writes and another one follows; latency from the send to the arrival."""
    CLIENT_PRODUCE = "client-produce"
    """librdkafka; latency from produce() to the delivery report."""
    CLIENT_CONSUME = "client-consume"
    """librdkafka, reading what is there from its beginning to its end and again."""

    @property
    def is_client(self) -> bool:
        return self in (Kind.CLIENT_PRODUCE, Kind.CLIENT_CONSUME)

    @property
    def reads_backlog(self) -> bool:
        return self in (Kind.FETCH, Kind.CLIENT_CONSUME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the report."""

    name: str
    kind: Kind = Kind.PRODUCE
    acks: int = ACKS_ALL
    record_bytes: int
    """Bytes of a record's value; there are no keys and no headers."""
    batch_records: int
    """Records of a batch. With librdkafka it is the client that decides; then it is how the backlog is
    written."""
    connections: int = 1
    in_flight: int = 1
    """Requests that each connection keeps under way."""
    partitions: int = 1
    linger_ms: int = 5
    """librdkafka's default."""
    is_quick: bool = False
    """Whether `--quick` runs it."""

    @property
    def operation(self) -> str:
        """What CPU is counted per: a client library decides itself how many requests it sends."""
        return "record" if self.kind.is_client else "request"

    @property
    def description(self) -> str:
        """One line for people, with all that matters."""
        parts = []
        if self.kind in (Kind.PRODUCE, Kind.TAIL, Kind.CLIENT_PRODUCE):
            parts.append("acks=all" if self.acks == ACKS_ALL else f"acks={self.acks}")
        if self.kind.is_client:
            parts.append(f"{self.record_bytes} B records")
            parts.append(f"linger {self.linger_ms} ms" if self.kind is Kind.CLIENT_PRODUCE else "backlog")
        else:
            records = "1 record" if self.batch_records == 1 else f"{self.batch_records} records"
            parts.append(f"{records} of {self.record_bytes} B a batch")
            parts.append(f"{self.connections} connection{'s' if self.connections > 1 else ''}")
            parts.append(f"{self.in_flight} in flight" + (" each" if self.connections > 1 else ""))
        if self.partitions > 1:
            parts.append(f"{self.partitions} partitions")
        return ", ".join(parts)


SMALL = 1
"""Records of a small batch."""
LARGE_100B = 600
"""Records of 100 B that make a batch of 64 KiB."""
LARGE_1KB = 64
HUGE_1KB = 1000
"""Records of 1 KB that make a batch just below Kafka's default of message.max.bytes."""

CASES: tuple[Case, ...] = (
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


TLS_CASES = (
    "produce-all-100b-8x1",
    "produce-all-66k-4x4",
    "fetch-backlog-4x1",
    "client-produce-all-100b",
    "client-consume-100b",
)
"""What shows the cost of TLS: many small requests, many bytes in, many bytes out."""


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
