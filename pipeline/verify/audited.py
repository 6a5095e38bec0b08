"""The log's leader epochs against the elections that the controller's audit knows. Pure.

The audit has every change of a partition's state with its leader epoch, but counts no records. Compared with
a log, it says which broker led while which offsets were written, and whether a log holds batches of a leader
epoch without an election.

Leader epochs within a hole of the audit (SQL was down for long, retention has removed its oldest rows) are
not judged, nor is one that is newer than the newest row, unless brokers don't know it either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.verify.findings import Finding, Flaw, finding_of
from pipeline.verify.joining import VerifiedPartition

NO_LEADER = -1


class AuditedEpoch(NamedTuple):
    """One audited change of a partition. `epoch_before`: None at its creation. `is_after_gap`: changes before
    it may be missing in the audit. `at`: RFC 3339."""

    epoch_before: int | None
    leader_epoch: int
    leader: int
    at: str
    is_after_gap: bool = False


class AuditedLeadership(NamedTuple):
    """A leader, since when it led, and what was written under its leader epoch. `since` None: not in the
    audit."""

    leader_epoch: int
    leader: int | None
    since: str | None
    first_offset: int
    next_offset: int
    records: int


class Audited(NamedTuple):
    """`unjudged`: stretches of a log under leader epochs that the audit may have missed."""

    findings: tuple[Finding, ...]
    leaderships: Mapping[TopicPartition, tuple[AuditedLeadership, ...]]
    unjudged: int


def compare_epochs(
    partitions: Iterable[VerifiedPartition],
    audited: Mapping[TopicPartition, Sequence[AuditedEpoch]],
    current: Mapping[TopicPartition, int],
) -> Audited:
    """Compare the logs with the audit. audited: each partition's changes, oldest first. current: its leader
    epoch at the brokers, after the logs were read."""
    findings: list[Finding] = []
    leaderships: dict[TopicPartition, tuple[AuditedLeadership, ...]] = {}
    unjudged = 0
    for one in partitions:
        if one.is_gone:
            continue
        known = _Known(audited.get(one.where, ()))
        rows: list[AuditedLeadership] = []
        for span in one.epochs:
            state = known.states.get(span.leader_epoch)
            rows.append(
                AuditedLeadership(
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
            detail = f"leader epoch {span.leader_epoch}; the audit knows {known.described()}"
            first, last = span.first_offset, span.next_offset - 1
            findings.append(
                finding_of(one.where, Flaw.UNKNOWN_LEADER_EPOCH, first, last, detail, batches=span.batches)
            )
        leaderships[one.where] = tuple(rows)
    return Audited(tuple(findings), leaderships, unjudged)


class _Known:
    """The leader epochs of one partition's audited changes, and where some may be missing between them."""

    def __init__(self, changes: Sequence[AuditedEpoch]) -> None:
        self.states: dict[int, AuditedEpoch] = {}
        self._holes: list[tuple[int, int]] = []
        self._newest = -1
        for change in changes:
            if change.is_after_gap or (self._newest < 0 and change.epoch_before is not None):
                # Epochs between the newest known and this change may be missing in the audit.
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
