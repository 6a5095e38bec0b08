"""What the ranges of a partition say together: its figures, and whether they meet. Pure.

Ranges are read in parallel, each knowing nothing of its neighbours; here their ends are held against each
other: the offsets, the leader epochs, and each producer's last batch in one range against its first in the
next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from pipeline.client.values import TopicPartition
from pipeline.verify.findings import EVERY_REPLICA, Finding, Kind, joined
from pipeline.verify.log_order import EpochSpan, Held, together
from pipeline.verify.replica_stream import End
from pipeline.verify.report import RangeReport
from pipeline.verify.sequences import SequencedBatch, judge

_WORST_FIRST = (End.UNREADABLE, End.STALE, End.CATCHING_UP, End.LEFT, End.WHOLE)


class JoinRules(NamedTuple):
    """`compacted`: topics whose offsets have holes. See OrderRules."""

    compacted: frozenset[str]
    expiry_ms: int


class PartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    """One partition, all of its ranges: offsets `first_offset` to `next_offset` (exclusive) were looked at.
    `replicas`: how the reading of each ended, by broker id. `is_gone`: nobody has it any more, since its
    topic was deleted meanwhile."""

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
    """Batches and stretches beyond what is remembered of a range: not judged by sequence, or not counted."""
    is_gone: bool

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Verified(NamedTuple):
    """All partitions, in order, and what is wrong with them, in order."""

    partitions: tuple[PartitionResult, ...]
    findings: tuple[Finding, ...]


def join(reports: Iterable[RangeReport], rules: JoinRules) -> Verified:
    """Puts the ranges of each partition together."""
    by_partition: dict[TopicPartition, list[RangeReport]] = defaultdict(list)
    for report in reports:
        by_partition[TopicPartition(report.topic, report.partition)].append(report)
    partitions: list[PartitionResult] = []
    findings: list[Finding] = []
    for where in sorted(by_partition):
        ranges = sorted(by_partition[where], key=lambda one: one.start_offset)
        is_gone = all(replica.end is End.LEFT for one in ranges for replica in one.replicas)
        found = [] if is_gone else joined(_findings(ranges, rules))
        partitions.append(_result(ranges, len(found), is_gone=is_gone))
        findings += found
    return Verified(tuple(partitions), tuple(findings))


def _result(ranges: Sequence[RangeReport], findings: int, *, is_gone: bool) -> PartitionResult:
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
    return PartitionResult(
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
    )


def _findings(ranges: Sequence[RangeReport], rules: JoinRules) -> list[Finding]:
    found = [finding for one in ranges for finding in one.findings]
    meetings = _Meetings(ranges[0].topic, ranges[0].partition)
    if ranges[0].topic not in rules.compacted:
        _check_offsets(ranges, meetings)
        _check_sequences(ranges, rules.expiry_ms, meetings)
    _check_epochs(ranges, meetings)
    return found + meetings.found


class _Meetings:
    """Findings where ranges meet."""

    def __init__(self, topic: str, partition: int) -> None:
        self._where = (topic, partition)
        self.found: list[Finding] = []

    def add(self, kind: Kind, first_offset: int, last_offset: int, detail: str, *, batches: int = 1) -> None:
        topic, partition = self._where
        self.found.append(
            Finding(
                kind=kind,
                topic=topic,
                partition=partition,
                broker_id=EVERY_REPLICA,
                first_offset=first_offset,
                last_offset=last_offset,
                batches=batches,
                detail=detail,
            )
        )


def _check_offsets(ranges: Sequence[RangeReport], meetings: _Meetings) -> None:
    """No offset between the first range's start and the last one's end is nobody's."""
    log_start_offset = max(one.log_start_offset for one in ranges)
    due = ranges[0].start_offset
    for one in ranges:
        if one.first_offset >= 0:
            first = max(due, log_start_offset)
            if first < one.first_offset:
                detail = f"offset {one.first_offset} follows {first - 1}"
                meetings.add(Kind.OFFSET_GAP, first, one.first_offset - 1, detail, batches=0)
            due = one.next_offset
    # The last offsets: only a replica that has come to the end can say that they are not there.
    end = ranges[-1].end_offset
    first = max(due, log_start_offset)
    if first < end and any(replica.end is End.WHOLE for replica in ranges[-1].replicas):
        detail = f"the log ends at offset {first}, and offsets up to {end - 1} are committed"
        meetings.add(Kind.OFFSET_GAP, first, end - 1, detail, batches=0)


def _check_epochs(ranges: Sequence[RangeReport], meetings: _Meetings) -> None:
    before: EpochSpan | None = None
    for one in ranges:
        if not one.epochs:
            continue
        first = one.epochs[0]
        if before is not None and first.leader_epoch < before.leader_epoch:
            detail = f"leader epoch {first.leader_epoch} after {before.leader_epoch}"
            meetings.add(Kind.LEADER_EPOCH_GOES_BACK, first.first_offset, first.first_offset, detail)
        before = one.epochs[-1]


def _check_sequences(ranges: Sequence[RangeReport], expiry_ms: int, meetings: _Meetings) -> None:
    last: dict[int, SequencedBatch] = {}
    for one in ranges:
        for edge in one.producers:
            before = last.get(edge.producer_id)
            if before is not None:
                misfit = judge(edge.producer_id, before, edge.first, expiry_ms=expiry_ms)
                if misfit is not None:
                    batch = misfit.batch
                    meetings.add(misfit.kind, batch.base_offset, batch.last_offset, misfit.detail)
            last[edge.producer_id] = edge.last


def without(verified: Verified, gone: Iterable[str]) -> Verified:
    """Without the findings of topics that were deleted, or made again, while they were read."""
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
    """With what was found by other means."""
    counts: Mapping[TopicPartition, int] = _counts(more)
    return Verified(
        tuple(
            msgspec.structs.replace(one, findings=one.findings + counts.get(one.where, 0))
            for one in verified.partitions
        ),
        tuple(
            sorted((*verified.findings, *more), key=lambda one: (one.topic, one.partition, one.first_offset))
        ),
    )


def _counts(findings: Iterable[Finding]) -> dict[TopicPartition, int]:
    counts: dict[TopicPartition, int] = defaultdict(int)
    for one in findings:
        counts[TopicPartition(one.topic, one.partition)] += 1
    return counts
