"""What can be found to be wrong with a log, and how findings that belong together become one.

A finding names offsets of one partition and the replica that is wrong, or nobody (EVERY_REPLICA) where all
replicas agree on it. Batches that follow each other and are wrong in the same way are one finding, so that a
divergent suffix of a million batches is a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

EVERY_REPLICA = -1
"""Stands for a broker id where the replicas agree: whatever happened, it happened before replication."""
FINDINGS_MAX = 1_000
"""Kept of one range; those beyond are counted. A log that is nothing but damage must not fill a driver."""


class Kind(StrEnum):
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
    STALE_REPLICA = "stale_replica"
    UNREADABLE_REPLICA = "unreadable_replica"
    UNKNOWN_LEADER_EPOCH = "unknown_leader_epoch"
    LANDED_COUNT = "landed_count"
    LANDED_MISSING = "landed_missing"
    LANDED_TWICE = "landed_twice"


MEANINGS: dict[Kind, str] = {
    Kind.CRC_MISMATCH: "the batch's bytes do not have the CRC that its producer sealed them with",
    Kind.MALFORMED_BATCH: "bytes that are no record batch",
    Kind.BATCH_DIFFERS: "a sound batch, but not the one that the other replicas have there",
    Kind.BATCH_MISSING: "other replicas have a batch there, this one has none",
    Kind.BATCH_EXTRA: "a batch where the other replicas have none",
    Kind.OFFSETS_GO_BACK: "a batch that begins below the end of the one before it",
    Kind.OFFSET_GAP: "no replica has these offsets",
    Kind.LEADER_EPOCH_GOES_BACK: "a batch of an earlier leader epoch than the one before it",
    Kind.SEQUENCE_GAP: "records of an idempotent producer are missing before it",
    Kind.SEQUENCE_REPEATED: "an idempotent producer's records are there a second time",
    Kind.PRODUCER_EPOCH_GOES_BACK: "a batch of a producer that a later one of its epochs had fenced",
    Kind.STALE_REPLICA: "the replica ends before what is committed, and does not catch up",
    Kind.UNREADABLE_REPLICA: "the replica could not be read to the end",
    Kind.UNKNOWN_LEADER_EPOCH: "a leader epoch that the audit has no election for",
    Kind.LANDED_COUNT: "a landed file has another number of records than the log has between its offsets",
    Kind.LANDED_MISSING: "records of the log that no landed file has, although later ones were landed",
    Kind.LANDED_TWICE: "offsets that two landed files have",
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`last_offset` is inclusive. `batches`: how many are wrong in this way one after another; 0 where it is
    not about batches. `detail`: of the first of them, for people."""

    kind: Kind
    topic: str
    partition: int
    broker_id: int
    first_offset: int
    last_offset: int
    batches: int
    detail: str


class Findings:
    """Takes findings in the order of the log, as it is read."""

    def __init__(self, topic: str, partition: int) -> None:
        self._where = (topic, partition)
        self._found: list[Finding] = []
        self._latest: dict[tuple[Kind, int], int] = {}
        self.left_out = 0

    def add(
        self,
        kind: Kind,
        broker_id: int,
        first_offset: int,
        last_offset: int,
        detail: str,
        *,
        batches: int = 1,
    ) -> None:
        """Joins the one before it of this kind and replica if that ends where this begins."""
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
        topic, partition = self._where
        self._latest[kind, broker_id] = len(self._found)
        self._found.append(
            Finding(
                kind=kind,
                topic=topic,
                partition=partition,
                broker_id=broker_id,
                first_offset=first_offset,
                last_offset=last_offset,
                batches=batches,
                detail=detail,
            )
        )

    @property
    def found(self) -> list[Finding]:
        """In the order of their first offsets; of equal ones, in the order they were found."""
        return sorted(self._found, key=lambda one: one.first_offset)


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """Those of several ranges of several partitions, in order, with what ranges have cut put together."""
    ordered = sorted(findings, key=lambda one: (one.topic, one.partition, one.first_offset))
    out: list[Finding] = []
    latest: dict[tuple[str, int, Kind, int], int] = {}
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
