"""Logs, what can happen to a copy of one, and replicas that serve them: for the tests of verification."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.client.values import (
    TopicPartition,
)
from pipeline.verify.comparison import Comparison
from pipeline.verify.findings import Finding, Findings, Flaw
from pipeline.verify.joining import VerifiedPartition
from pipeline.verify.log_order import EpochSpan, Held, LogOrder, OrderRules
from pipeline.verify.replica_stream import End, ReplicaStream
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AppliedRound, FetchedPartition
from springtide.wire.records import NewRecord, encode_batch

WHERE = TopicPartition("orders", 0)
FIRST_MS = 1_700_000_000_000


class Batch(NamedTuple):
    """One batch of a log: its bytes and its offsets, `next_offset` exclusive."""

    data: bytes
    base_offset: int
    next_offset: int


def batch(
    base_offset: int,
    count: int = 2,
    *,
    leader_epoch: int = 3,
    producer: tuple[int, int, int] = (-1, -1, -1),
    text: str = "v",
    timestamp: int = FIRST_MS,
    is_control: bool = False,
) -> Batch:
    """Return a batch. `producer`: id, epoch, base sequence."""
    records = [
        NewRecord(b"k%d" % n, f"{text}{base_offset + n}".encode(), timestamp + n) for n in range(count)
    ]
    producer_id, producer_epoch, base_sequence = producer
    data = encode_batch(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_control=is_control,
    )
    return Batch(data, base_offset, base_offset + count)


def log_of(counts: Iterable[int], *, first: int = 0, producers: int = 2) -> list[Batch]:
    """A healthy log: idempotent producers take turns, and a leader epoch lasts ten batches."""
    batches: list[Batch] = []
    sequences = dict.fromkeys(range(producers), 0)
    offset = first
    for index, count in enumerate(counts):
        who = index % producers
        one = batch(
            offset, count, leader_epoch=1 + index // 10, producer=(9_000 + who, 0, sequences[who]), text="p"
        )
        sequences[who] += count
        batches.append(one)
        offset = one.next_offset
    return batches


def data_of(batches: Sequence[Batch]) -> bytes:
    return b"".join(one.data for one in batches)


def flipped(one: Batch, bit: int) -> Batch:
    data = bytearray(one.data)
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return one._replace(data=bytes(data))


def with_epoch(one: Batch, leader_epoch: int) -> Batch:
    """Return the batch as a leader of that epoch stamps it: its CRC still fits."""
    return one._replace(data=one.data[:12] + struct.pack(">i", leader_epoch) + one.data[16:])


@dataclass
class Replica:
    """A log as a broker serves it: whole batches from the first that holds the offset asked for, none beyond
    the high watermark; at least one, however large."""

    batches: list[Batch]
    high_watermark: int = -1
    log_start_offset: int = 0
    answers: list[FetchedPartition] = field(default_factory=list)
    """Given first, before it looks into its log."""
    applied_round: AppliedRound | None = None
    is_torn: bool = False
    """Cuts answers in the middle of a batch, as Kafka does."""

    def __post_init__(self) -> None:
        if self.high_watermark < 0:
            self.high_watermark = max((one.next_offset for one in self.batches), default=0)

    def fetch(self, offset: int, bytes_max: int) -> FetchedPartition:
        if self.answers:
            return self.answers.pop(0)
        if offset < self.log_start_offset:
            return self._answer(b"", ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        if offset > self.high_watermark:
            return self._answer(b"", ErrorCode.OFFSET_NOT_AVAILABLE, self.high_watermark)
        data = b""
        for one in self.batches:
            if one.next_offset > self.high_watermark:
                break
            if not data and one.next_offset <= offset:
                continue
            if data and len(data) + len(one.data) > bytes_max:
                data += one.data[: bytes_max - len(data)] if self.is_torn else b""
                break
            data += one.data
        return self._answer(data, ErrorCode.NONE, self.high_watermark)

    def _answer(self, data: bytes, error: ErrorCode, high_watermark: int) -> FetchedPartition:
        return FetchedPartition(
            *WHERE,
            error,
            high_watermark,
            high_watermark,
            self.log_start_offset,
            (memoryview(data),),
            applied_round=self.applied_round,
        )


class Read(NamedTuple):
    """What came of reading a range."""

    findings: list[Finding]
    order: LogOrder
    ends: dict[int, End | None]
    compared_bytes: int

    @property
    def kinds(self) -> list[tuple[Flaw, int, int, int]]:
        """(kind, broker, first offset, last offset)."""
        return [(one.kind, one.broker_id, one.first_offset, one.last_offset) for one in self.findings]


def read_range(
    replicas: Mapping[int, Replica],
    *,
    start: int = 0,
    end: int | None = None,
    in_sync: Sequence[int] | None = None,
    takes_head: bool = False,
    fetch_bytes: int = 64 * 1024,
    patience_ms: int = 1_000,
    rules: OrderRules = OrderRules(),  # noqa: B008 - a value
    is_compacted: bool = False,
    rng: random.Random | None = None,
    on_turn: Callable[[int], None] = lambda turn: None,
) -> Read:
    """Steps the streams and the comparison as the reader does, the clock a number. `rng` decides whose answer
    comes next; the first replica is the leader."""
    end = max(one.high_watermark for one in replicas.values()) if end is None else end
    findings = Findings(*WHERE)
    order = LogOrder(findings, rules)
    comparison = Comparison(tuple(replicas), order, findings, is_compacted=is_compacted)
    streams = {
        number: ReplicaStream(
            start=start,
            end=end,
            is_in_sync=in_sync is None or number in in_sync,
            takes_head=takes_head,
            fetch_bytes=fetch_bytes,
            patience_ms=patience_ms,
            wait_ms=10,
            is_compacted=is_compacted,
        )
        for number in replicas
    }
    now_ms = turn = 0
    while True:
        going = [number for number, stream in streams.items() if stream.end is None]
        if not going:
            break
        turn += 1
        assert turn < 100_000, "it goes on for ever"
        on_turn(turn)
        number = going[0] if rng is None else rng.choice(going)
        stream = streams[number]
        now_ms = max(now_ms + 1, stream.not_before_ms)
        wanted = stream.wanted()
        answer = replicas[number].fetch(wanted.offset, wanted.bytes_max)
        if not len(answer.records):
            now_ms += wanted.max_wait_ms
        parts = stream.on_answer(wanted, answer, now_ms=now_ms)
        comparison.on_log_start(number, stream.log_start_offset)
        comparison.add(number, parts)
        if stream.end is not None:
            comparison.end(number, stream.reached)
        comparison.run()
    comparison.run()
    return Read(
        findings.found,
        order,
        {number: stream.end for number, stream in streams.items()},
        comparison.compared_bytes,
    )


def partition(held: Sequence[Held], first: int = 0, following: int = 100) -> VerifiedPartition:
    return VerifiedPartition(
        topic="orders",
        partition=0,
        first_offset=first,
        next_offset=following,
        batches=1,
        records=sum(one.records for one in held),
        size_bytes=1,
        compared_bytes=3,
        replicas={1: End.WHOLE},
        epochs=(EpochSpan(1, first, following, 1, 1, 1),),
        held=tuple(held),
        findings=0,
        findings_left_out=0,
        unjudged=0,
        is_gone=False,
    )
