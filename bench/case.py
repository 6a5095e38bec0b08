"""A row of the benchmark as a value: what the load does, and what state the cluster is in.

A case says what one load does and nothing about where. Names are stable, because people compare figures
across months by them: `<what>-<acks>-<batch>-<connections>x<in flight>`, and what is special at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from springtide.wire.compression import Compression

ACKS_ALL = -1
ACKS_LEADER = 1

FILL_BYTES = 192 * 1024 * 1024
"""What backlog cases read, again and again: small enough to stay in the page cache of any machine."""
FILL_BYTES_QUICK = 48 * 1024 * 1024
WARMUP_FRACTION = 0.25
PIPE_BATCH_BYTES_MIN = 60_000


class Setup(StrEnum):
    """How the clusters of both sides are set up. Cases of one setup run on the same clusters."""

    PLAIN = "plain"
    TLS = "TLS"
    """Clients, brokers and controllers speak TLS."""
    ACLS = "TLS and ACLs"
    """The same, clients show a certificate, and ACLs decide what each principal may do."""
    WORKERS = "two workers a broker"
    """Each broker of ours is two processes. Kafka's is one, with threads, as always."""


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
    IDLE = "idle"
    """Nothing is asked, on as many connections as the case has. An operation is a second of one node."""
    CATCH_UP = "catch-up"
    """A follower that was away copies what was written meanwhile. An operation is a record of it."""

    @property
    def is_client(self) -> bool:
        return self in (Kind.CLIENT_PRODUCE, Kind.CLIENT_CONSUME)

    @property
    def reads_backlog(self) -> bool:
        return self in (Kind.FETCH, Kind.CLIENT_CONSUME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
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
    setup: Setup = Setup.PLAIN
    beside: str = ""
    """The case that differs from this one in one thing; the report compares the two on each side."""
    compression: Compression = Compression.NONE
    pause_s: float = 0.0
    """Above 0: each connection sends one request in so many seconds, however fast the answers come."""
    readers: int = 0
    """Connections that read a full topic from its beginning meanwhile. Latencies are the writers' only."""
    is_broker_dead: bool = False
    """Whether one of the brokers was killed before."""
    is_of_controller: bool = False
    """Whether processor time and memory are the controller's. Otherwise they are the brokers'."""
    length: float = 1.0
    """How many times as long as other cases it is measured."""
    warmup: float = WARMUP_FRACTION
    """Seconds of warm-up for each second that is measured."""
    is_quick: bool = False
    """Whether `--quick` runs it."""

    @property
    def operation(self) -> str:
        """What CPU is counted per: a client library decides itself how many requests it sends."""
        if self.kind is Kind.IDLE:
            return "second"
        return "record" if self.kind.is_client or self.kind is Kind.CATCH_UP else "request"

    @property
    def batch_bytes(self) -> int:
        """About the bytes of a batch before it is compressed."""
        return self.record_bytes * self.batch_records

    @property
    def has_pipe(self) -> bool:
        """Whether a plain copy loop can do the same: the row shows what share of its throughput is left."""
        return (
            self.kind is Kind.PRODUCE
            and self.batch_bytes >= PIPE_BATCH_BYTES_MIN
            and self.partitions == 1
            and self.setup is Setup.PLAIN
            and self.compression is Compression.NONE
            and not (self.readers or self.pause_s or self.is_broker_dead)
        )

    @property
    def description(self) -> str:
        """One line for people, with all that matters."""
        if self.kind is Kind.IDLE:
            who = "the controller" if self.is_of_controller else "brokers"
            silent = f", {self.connections:,} silent connections" if self.connections else ""
            return f"{who} without a request{silent}"
        if self.kind is Kind.CATCH_UP:
            return f"a follower was paused and copies what it lacks, in batches of {self.batch_bytes:,} B"
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
            parts.append(f"{self.partitions:,} partitions")
        if self.compression is not Compression.NONE:
            parts.append(self.compression.name.lower())
        if self.pause_s:
            parts.append(f"one request in {self.pause_s:g} s each")
        if self.readers:
            parts.append(f"{self.readers} readers of a full topic beside")
        if self.is_broker_dead:
            parts.append("one broker dead")
        if self.setup is not Setup.PLAIN:
            parts.append(self.setup.value)
        return ", ".join(parts)
