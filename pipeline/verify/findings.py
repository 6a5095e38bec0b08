"""The kinds of faults in a log, and the joining of findings that belong together into one.

A finding names offsets of one partition and the replica that is wrong, or EVERY_REPLICA if all agree.
Adjacent batches that are wrong in the same way are one finding, so a divergent suffix of a million batches is
one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from pipeline.client.values import TopicPartition

EVERY_REPLICA = -1
"""In the place of a broker id if the replicas agree: the fault is older than replication."""
FINDINGS_MAX = 1_000
"""Findings kept of one range; further ones are counted. A damaged log must not fill the driver's memory."""


class Flaw(StrEnum):
    """One word each; `MEANINGS` has the sentence."""

    CRC_MISMATCH = "crc_mismatch"
    MALFORMED_BATCH = "malformed_batch"
    BATCH_DIFFERS = "batch_differs"
    BATCH_MISSING = "batch_missing"
    BATCH_EXTRA = "batch_extra"
    OFFSETS_GO_BACK = "offsets_go_back"
    OFFSET_GAP = "offset_gap"
    LEADER_EPOCH_GOES_BACK = "leader_epoch_goes_back"
    SEQUENCE_GAP = "sequence_gap"
    SEQUENCE_REPEATED = "sequence_repeated"
    PRODUCER_EPOCH_GOES_BACK = "producer_epoch_goes_back"
    COORDINATOR_EPOCH_GOES_BACK = "coordinator_epoch_goes_back"
    ABORTED_NOT_TOLD = "aborted_not_told"
    ABORTED_WRONGLY = "aborted_wrongly"
    STALE_REPLICA = "stale_replica"
    UNREADABLE_REPLICA = "unreadable_replica"
    UNKNOWN_LEADER_EPOCH = "unknown_leader_epoch"
    LANDED_COUNT = "landed_count"
    LANDED_MISSING = "landed_missing"
    LANDED_TWICE = "landed_twice"


MEANINGS: dict[Flaw, str] = {
    Flaw.CRC_MISMATCH: "the batch's bytes do not have the CRC that its producer sealed them with",
    Flaw.MALFORMED_BATCH: "bytes that are no record batch",
    Flaw.BATCH_DIFFERS: "a sound batch, but not the one that the other replicas have there",
    Flaw.BATCH_MISSING: "other replicas have a batch there, this one has none",
    Flaw.BATCH_EXTRA: "a batch where the other replicas have none",
    Flaw.OFFSETS_GO_BACK: "a batch that begins below the end of the one before it",
    Flaw.OFFSET_GAP: "no replica has these offsets",
    Flaw.LEADER_EPOCH_GOES_BACK: "a batch of an earlier leader epoch than the one before it",
    Flaw.SEQUENCE_GAP: "records of an idempotent producer are missing before it",
    Flaw.SEQUENCE_REPEATED: "an idempotent producer's records are there a second time",
    Flaw.PRODUCER_EPOCH_GOES_BACK: "a batch of a producer that a later one of its epochs had fenced",
    Flaw.COORDINATOR_EPOCH_GOES_BACK: "a transaction's marker of a coordinator that a later one had fenced",
    Flaw.ABORTED_NOT_TOLD: "readers of committed records are given records of an aborted transaction",
    Flaw.ABORTED_WRONGLY: "readers of committed records are not given records that were not aborted",
    Flaw.STALE_REPLICA: "the replica ends before what is committed, and does not catch up",
    Flaw.UNREADABLE_REPLICA: "the replica could not be read to the end",
    Flaw.UNKNOWN_LEADER_EPOCH: "a leader epoch that the audit has no election for",
    Flaw.LANDED_COUNT: "a landed file has another number of records than the log has between its offsets",
    Flaw.LANDED_MISSING: "records of the log that no landed file has, although later ones were landed",
    Flaw.LANDED_TWICE: "offsets that two landed files have",
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`last_offset` is inclusive. `batches`: adjacent batches that are wrong in this way; 0 if it is not
    about batches. `detail`: of the first one, for people."""

    kind: Flaw
    topic: str
    partition: int
    broker_id: int
    first_offset: int
    last_offset: int
    batches: int
    detail: str


def finding_of(
    where: TopicPartition,
    kind: Flaw,
    first_offset: int,
    last_offset: int,
    detail: str,
    *,
    batches: int = 0,
    broker_id: int = EVERY_REPLICA,
) -> Finding:
    return Finding(
        kind=kind,
        topic=where.topic,
        partition=where.partition,
        broker_id=broker_id,
        first_offset=first_offset,
        last_offset=last_offset,
        batches=batches,
        detail=detail,
    )


class Findings:
    """Findings of one range, added in the order of the log."""

    def __init__(self, topic: str, partition: int) -> None:
        self._where = TopicPartition(topic, partition)
        self._found: list[Finding] = []
        self._latest: dict[tuple[Flaw, int], int] = {}
        self.left_out = 0

    def add(
        self,
        kind: Flaw,
        broker_id: int,
        first_offset: int,
        last_offset: int,
        detail: str,
        *,
        batches: int = 1,
    ) -> None:
        """Add a finding; join it with the last one of this kind and replica if that ends where this
        begins."""
        index = self._latest.get((kind, broker_id))
        if index is not None:
            before = self._found[index]
            if before.first_offset <= first_offset <= before.last_offset + 1:
                self._found[index] = msgspec.structs.replace(
                    before,
                    last_offset=max(before.last_offset, last_offset),
                    batches=before.batches + batches,
                )
                return
        if len(self._found) >= FINDINGS_MAX:
            self.left_out += 1
            return
        self._latest[kind, broker_id] = len(self._found)
        self._found.append(
            finding_of(
                self._where, kind, first_offset, last_offset, detail, batches=batches, broker_id=broker_id
            )
        )

    @property
    def found(self) -> list[Finding]:
        """Return the findings in the order of first offsets; equal ones in the order in which they were
        found."""
        return sorted(self._found, key=lambda one: one.first_offset)


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings of several ranges in order; those that ranges have cut are joined again."""
    ordered = sorted(findings, key=lambda one: (one.topic, one.partition, one.first_offset))
    out: list[Finding] = []
    latest: dict[tuple[str, int, Flaw, int], int] = {}
    for one in ordered:
        key = (one.topic, one.partition, one.kind, one.broker_id)
        index = latest.get(key)
        if index is not None and out[index].last_offset + 1 == one.first_offset:
            before = out[index]
            out[index] = msgspec.structs.replace(
                before, last_offset=one.last_offset, batches=before.batches + one.batches
            )
            continue
        latest[key] = len(out)
        out.append(one)
    return out
