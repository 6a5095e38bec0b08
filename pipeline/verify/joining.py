"""The ranges of a partition together: its figures, and whether its ranges meet. Pure.

Ranges are read in parallel. Here each range's end is compared with the next one's beginning: offsets, leader
epochs, and each producer's last and first batch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from pipeline.client.values import TopicPartition
from pipeline.verify.findings import Finding, Flaw, finding_of, joined
from pipeline.verify.log_order import EpochSpan, Held, together
from pipeline.verify.replica_stream import End
from pipeline.verify.report import RangeReport
from pipeline.verify.sequences import SequencedBatch, judge
from springtide.wire.fetch_response import AppliedRound

_WORST_FIRST = (End.UNREADABLE, End.STALE, End.CATCHING_UP, End.LEFT, End.WHOLE)


class VerifiedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition: offsets `first_offset` to `next_offset` (exclusive) were read. `replicas`: how the
    reading of each ended, by broker id. `is_gone`: its topic was deleted meanwhile. `is_compacted`: its
    offsets have holes; then `rounds` are the rounds of compaction that each replica had applied when the last
    range was read, as far as it tells, and `apart` the replicas that were not compared with the leader's log,
    in some range at least."""

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    batches: int
    records: int
    size_bytes: int
    compared_bytes: int
    replicas: dict[int, End]
    epochs: tuple[EpochSpan, ...]
    held: tuple[Held, ...]
    findings: int
    findings_left_out: int
    unjudged: int
    """Batches and stretches beyond the bounds of a range's memory: not judged by sequence, or not counted."""
    is_gone: bool
    is_compacted: bool = False
    rounds: dict[int, AppliedRound | None] = {}
    apart: tuple[int, ...] = ()

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Verified(NamedTuple):
    partitions: tuple[VerifiedPartition, ...]
    findings: tuple[Finding, ...]


def join(reports: Iterable[RangeReport], *, expiry_ms: int) -> Verified:
    """Put the ranges of each partition together. expiry_ms: see OrderRules."""
    by_partition: dict[TopicPartition, list[RangeReport]] = defaultdict(list)
    for report in reports:
        by_partition[TopicPartition(report.topic, report.partition)].append(report)
    partitions: list[VerifiedPartition] = []
    findings: list[Finding] = []
    for where in sorted(by_partition):
        ranges = sorted(by_partition[where], key=lambda one: one.start_offset)
        is_gone = all(replica.end is End.LEFT for one in ranges for replica in one.replicas)
        found = [] if is_gone else joined(_findings(where, ranges, expiry_ms))
        partitions.append(_result(ranges, len(found), is_gone=is_gone))
        findings += found
    return Verified(tuple(partitions), tuple(findings))


def _result(ranges: Sequence[RangeReport], findings: int, *, is_gone: bool) -> VerifiedPartition:
    ends: dict[int, list[End]] = defaultdict(list)
    for one in ranges:
        for replica in one.replicas:
            ends[replica.broker_id].append(replica.end)
    epochs: list[EpochSpan] = []
    held: list[Held] = []
    for one in ranges:
        for span in one.epochs:
            goes_on = bool(epochs) and epochs[-1].leader_epoch == span.leader_epoch
            epochs.append(together(epochs.pop(), span) if goes_on else span)
        held += one.held
    return VerifiedPartition(
        topic=ranges[0].topic,
        partition=ranges[0].partition,
        first_offset=ranges[0].start_offset,
        next_offset=max(ranges[-1].end_offset, *(one.next_offset for one in ranges)),
        batches=sum(one.batches for one in ranges),
        records=sum(one.records for one in ranges),
        size_bytes=sum(one.size_bytes for one in ranges),
        compared_bytes=sum(one.compared_bytes for one in ranges),
        replicas={
            broker_id: next(end for end in _WORST_FIRST if end in some)
            for broker_id, some in sorted(ends.items())
        },
        epochs=tuple(epochs),
        held=tuple(held),
        findings=findings,
        findings_left_out=sum(one.findings_left_out for one in ranges),
        unjudged=sum(one.sequences_left_out + one.held_left_out for one in ranges),
        is_gone=is_gone,
        is_compacted=any(one.is_compacted for one in ranges),
        rounds={replica.broker_id: replica.round for replica in ranges[-1].replicas},
        apart=tuple(
            sorted({replica.broker_id for one in ranges for replica in one.replicas if replica.is_apart})
        ),
    )


def _findings(where: TopicPartition, ranges: Sequence[RangeReport], expiry_ms: int) -> Iterator[Finding]:
    for one in ranges:
        yield from one.findings
    if not any(one.is_compacted for one in ranges):
        yield from _offset_gaps(where, ranges)
        yield from _sequence_misfits(where, ranges, expiry_ms)
    yield from _epochs_that_go_back(where, ranges)


def _offset_gaps(where: TopicPartition, ranges: Sequence[RangeReport]) -> Iterator[Finding]:
    """Offsets between the first range's start and the last range's end that no range has."""
    log_start_offset = max(one.log_start_offset for one in ranges)
    due = ranges[0].start_offset
    for one in ranges:
        if one.first_offset >= 0:
            first = max(due, log_start_offset)
            if first < one.first_offset:
                detail = f"offset {one.first_offset} follows {first - 1}"
                yield finding_of(where, Flaw.OFFSET_GAP, first, one.first_offset - 1, detail)
            due = one.next_offset
    # The last offsets: only a replica that has come to the end can say that they are not there.
    end = ranges[-1].end_offset
    first = max(due, log_start_offset)
    if first < end and any(replica.end is End.WHOLE for replica in ranges[-1].replicas):
        detail = f"the log ends at offset {first}, and offsets up to {end - 1} are committed"
        yield finding_of(where, Flaw.OFFSET_GAP, first, end - 1, detail)


def _epochs_that_go_back(where: TopicPartition, ranges: Sequence[RangeReport]) -> Iterator[Finding]:
    for before, one in pairwise(one for one in ranges if one.epochs):
        last, first = before.epochs[-1], one.epochs[0]
        if first.leader_epoch < last.leader_epoch:
            detail = f"leader epoch {first.leader_epoch} after {last.leader_epoch}"
            offset = first.first_offset
            yield finding_of(where, Flaw.LEADER_EPOCH_GOES_BACK, offset, offset, detail, batches=1)


def _sequence_misfits(
    where: TopicPartition, ranges: Sequence[RangeReport], expiry_ms: int
) -> Iterator[Finding]:
    last: dict[int, SequencedBatch] = {}
    for one in ranges:
        for edge in one.producers:
            before = last.get(edge.producer_id)
            misfit = before and judge(edge.producer_id, before, edge.first, expiry_ms=expiry_ms)
            if misfit:
                batch = misfit.batch
                yield finding_of(
                    where, misfit.kind, batch.base_offset, batch.last_offset, misfit.detail, batches=1
                )
            last[edge.producer_id] = edge.last


def without(verified: Verified, gone: Iterable[str]) -> Verified:
    """Return the result without topics that were deleted, or created anew, while they were read."""
    topics = frozenset(gone)
    if not topics:
        return verified
    return Verified(
        tuple(
            msgspec.structs.replace(one, findings=0, is_gone=True) if one.topic in topics else one
            for one in verified.partitions
        ),
        tuple(one for one in verified.findings if one.topic not in topics),
    )


def with_more(verified: Verified, more: Sequence[Finding]) -> Verified:
    """Return the result with findings of other checks."""
    counts = Counter(TopicPartition(one.topic, one.partition) for one in more)
    return Verified(
        tuple(
            msgspec.structs.replace(one, findings=one.findings + counts[one.where])
            for one in verified.partitions
        ),
        tuple(
            sorted((*verified.findings, *more), key=lambda one: (one.topic, one.partition, one.first_offset))
        ),
    )
