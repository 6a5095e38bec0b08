"""The log's leader epochs against the elections that the controller's audit knows. Pure.

The audit has every change of a partition's state with its leader epoch, and nothing of what was written: it
counts no records. So this is what the two have to say to each other: who led while which offsets were
written, and whether a log holds batches of a leader epoch that never was.

Where the audit has a hole (SQL was down for long, retention has removed its oldest rows), epochs within the
hole are not judged; nor is one that is newer than the newest row, unless brokers don't know it either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.verify.findings import EVERY_REPLICA, Finding, Kind
from pipeline.verify.joining import PartitionResult

NO_LEADER = -1


class AuditedState(NamedTuple):
    """One audited change of a partition. `epoch_before`: None where it began. `is_after_gap`: changes before
    it may not have been written down. `at`: RFC 3339."""

    epoch_before: int | None
    leader_epoch: int
    leader: int
    at: str
    is_after_gap: bool = False


class Leadership(NamedTuple):
    """Who led from when on, and what was written under its leader epoch. `since` None: not in the audit."""

    leader_epoch: int
    leader: int | None
    since: str | None
    first_offset: int
    next_offset: int
    records: int


class Audited(NamedTuple):
    """`unjudged`: stretches of a log under leader epochs that the audit can say nothing of."""

    findings: tuple[Finding, ...]
    leaderships: Mapping[TopicPartition, tuple[Leadership, ...]]
    unjudged: int


def compare_epochs(
    partitions: Iterable[PartitionResult],
    audited: Mapping[TopicPartition, Sequence[AuditedState]],
    current: Mapping[TopicPartition, int],
) -> Audited:
    """audited: each partition's changes, oldest first. current: its leader epoch as brokers know it, after
    the logs were read."""
    findings: list[Finding] = []
    leaderships: dict[TopicPartition, tuple[Leadership, ...]] = {}
    unjudged = 0
    for one in partitions:
        if one.is_gone:
            continue
        known = _Known(audited.get(one.where, ()))
        rows: list[Leadership] = []
        for span in one.epochs:
            state = known.states.get(span.leader_epoch)
            rows.append(
                Leadership(
                    span.leader_epoch,
                    None if state is None else state.leader,
                    None if state is None else state.at,
                    span.first_offset,
                    span.next_offset,
                    span.records,
                )
            )
            if state is not None:
                continue
            if known.may_have_missed(span.leader_epoch, current.get(one.where, -1)):
                unjudged += 1
                continue
            findings.append(
                Finding(
                    kind=Kind.UNKNOWN_LEADER_EPOCH,
                    topic=one.topic,
                    partition=one.partition,
                    broker_id=EVERY_REPLICA,
                    first_offset=span.first_offset,
                    last_offset=span.next_offset - 1,
                    batches=span.batches,
                    detail=f"leader epoch {span.leader_epoch}; the audit knows {known.described()}",
                )
            )
        leaderships[one.where] = tuple(rows)
    return Audited(tuple(findings), leaderships, unjudged)


class _Known:
    """The leader epochs of one partition's audited changes, and between which of them some may be missing."""

    def __init__(self, changes: Sequence[AuditedState]) -> None:
        self.states: dict[int, AuditedState] = {}
        self._holes: list[tuple[int, int]] = []
        self._newest = -1
        for change in changes:
            if change.is_after_gap or (self._newest < 0 and change.epoch_before is not None):
                # Epochs after the newest known, up to where this change sets in, were perhaps never told.
                begins = change.leader_epoch if change.epoch_before is None else change.epoch_before
                self._holes.append((self._newest + 1, begins))
            if change.leader_epoch > self._newest:
                self.states[change.leader_epoch] = change
                self._newest = change.leader_epoch

    def may_have_missed(self, leader_epoch: int, current: int) -> bool:
        if any(first <= leader_epoch <= last for first, last in self._holes):
            return True
        return self._newest < leader_epoch <= current

    def described(self) -> str:
        return f"{len(self.states)}, the newest {self._newest}" if self.states else "none"
