"""A task's report about one range. Bytes of records don't leave the task."""

from __future__ import annotations

import msgspec

from pipeline.verify.findings import Finding
from pipeline.verify.log_order import EpochSpan, Held
from pipeline.verify.replica_stream import End
from pipeline.verify.sequences import ProducerEnds
from springtide.wire.fetch_response import AppliedRound


class ReplicaReport(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of one replica. `reached`: everything that it has below that offset was read. `round`: the
    round of compaction that it had applied. `is_apart`: it was not compared with the leader's log."""

    broker_id: int
    reached: int
    end: End
    detail: str = ""
    round: AppliedRound | None = None
    is_apart: bool = False


class RangeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One range of one partition.

    first_offset, next_offset: of the batches that were found; -1 if there are none. log_start_offset: the
    highest of all replicas. compared_bytes: of all replicas together; size_bytes: of one copy. cpu_ms: of the
    task's thread.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    first_offset: int
    next_offset: int
    log_start_offset: int
    batches: int
    records: int
    size_bytes: int
    compared_bytes: int
    cpu_ms: float
    wall_ms: float
    replicas: tuple[ReplicaReport, ...]
    epochs: tuple[EpochSpan, ...] = ()
    producers: tuple[ProducerEnds, ...] = ()
    held: tuple[Held, ...] = ()
    findings: tuple[Finding, ...] = ()
    findings_left_out: int = 0
    sequences_left_out: int = 0
    held_left_out: int = 0
    is_compacted: bool = False
