"""What a partition's delivery and its shell tell each other. Values only.

The delivery asks for one thing at a time (an action); the shell does it and says what came of it (an event).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pipeline.client.values import EpochEnd
from springtide.wire.errors import ErrorCode

NO_SEQUENCE = -1
NO_EPOCH = -1


class Batch(NamedTuple):
    """One record batch as it will be sent, and the places of its records in the partition's stream.

    Sequences are inclusive and count from 0 in each micro-batch, task and partition. crc: of the records as
    they are sent, without the batch's header.
    """

    base_sequence: int
    last_sequence: int
    data: bytes
    crc: int = 0


class Stored(NamedTuple):
    """A batch of the task's own producer epoch: as it was sent, or as the log has it."""

    base_sequence: int
    last_sequence: int
    crc: int


class Known(NamedTuple):
    """Everything of the task up to `sequence` has been compared, and stands below `offset`, committed, in the
    log as the leader of `leader_epoch` had it."""

    sequence: int
    offset: int
    leader_epoch: int


class Failure(Enum):
    """Why an attempt of a task can't go on. Spark runs it again; `is_final` says that it won't help."""

    FENCED = "a later micro-batch of this sink has written"
    PLAN_CHANGED = "an earlier attempt of this task stored records that are not among this attempt's rows"
    OVERTAKEN = "another attempt of this task has stored other rows at the same time"
    RECORDS_LOST = "brokers lost records that they had stored"
    GAP = "records are missing in the middle of what is stored"
    REFUSED = "brokers refuse the records"
    STALLED = "no progress"

    @property
    def is_final(self) -> bool:
        return self in (Failure.FENCED, Failure.PLAN_CHANGED, Failure.GAP)


# Events: what the shell tells.


@dataclass(frozen=True, slots=True)
class Opened:
    """The task has rows for the partition, and must know what is stored before it makes batches of them."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The task has another batch for the partition; it goes on where the one before ended."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Ended:
    """The task has no more batches for the partition."""


@dataclass(frozen=True, slots=True)
class Described:
    """Of DescribeProducers, and then ListOffsets, from the leader.

    leader_epoch: the leader's when it was asked for the high watermark, *after* the producer was described.
    producer_epoch, last_sequence: NO_EPOCH and NO_SEQUENCE when the partition does not know the producer.
    """

    leader_epoch: int
    producer_epoch: int = NO_EPOCH
    last_sequence: int = NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class Scanned:
    """Of all batches from the scan's start to the high watermark, `end_offset`.

    leader_epoch: the leader's before *and* after the log was read; if those differ, the shell says Unsettled.
    producer_epoch: the newest epoch of the producer in that range, or NO_EPOCH.
    last_sequence: of our own epoch, the end of the run without a gap, or where it was to begin.
    batches: of our own epoch, those of that run.
    anomaly: what else was found of our own epoch, "" if nothing: sequences after a gap, or twice.
    """

    leader_epoch: int
    producer_epoch: int = NO_EPOCH
    last_sequence: int = NO_SEQUENCE
    batches: tuple[Stored, ...] = ()
    end_offset: int = 0
    anomaly: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """Of a Produce with acks=all. NONE: records of these sequences are committed.

    base_offset: where the batch was appended now; -1: it may be a duplicate, which says nothing of *what* is
    stored under these sequences.
    """

    error: ErrorCode
    message: str = ""
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class Checked:
    """Of ListOffsets for the latest offset, from the leader."""

    leader_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Whatever was asked for has no answer that can be used: it may have been done or not."""

    reason: str


@dataclass(frozen=True, slots=True)
class Woken:
    """The pause is over."""


Event = Opened | Offered | Ended | Described | Scanned | Answered | Checked | Unsettled | Woken


# Actions: what the delivery wants.


@dataclass(frozen=True, slots=True)
class AwaitBatch:
    """Nothing, until the task has another batch or has ended."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Ask the leader for the producer, then for the high watermark. The answer is Described."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Read what is stored up to the high watermark. The answer is Scanned.

    With `known`: only what follows it, if the log is still whole up to there (`is_whole`). Else all: from
    `start_offset`, or from where `leader_epoch` ends in the leader's log (OffsetForLeaderEpoch) if that
    is lower: an unclean election may have cut the log below the opening, and the micro-batch's records then
    stand below it. From the log's start if the leader can't tell. See `scan_start`.
    """

    start_offset: int
    leader_epoch: int
    known: Known | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Produce this batch with acks=all. The answer is Answered.

    Not to a leader of a later epoch than `leader_epoch`: if the shell has heard of one since, it sends
    nothing and says Unsettled. Such a leader may never have heard of this producer, and would take any
    sequence from it (KIP-360): that makes a gap which nobody can fill.
    """

    batch: Batch
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Check:
    """Ask the leader for the high watermark. The answer is Checked."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing for so long. The answer is Woken."""

    pause_ms: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """Everything is stored once, in order, and committed. Nothing more is to be done.

    While the partition's log is whole up to `high_watermark` of `leader_epoch`, the records are there:
    whoever commits the micro-batch asks for that once more (OffsetForLeaderEpoch).
    """

    records: int
    leader_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Failed:
    """This attempt can't deliver. What it stored stays, and another attempt goes on from there."""

    failure: Failure
    detail: str

    def __str__(self) -> str:
        return f"{self.failure.value}: {self.detail}"


Action = AwaitBatch | Describe | Scan | Send | Check | Pause | Delivered | Failed


def is_whole(known: Known, end: EpochEnd) -> bool:
    """Whether the log still holds what is known of it, by the answer of where `known.leader_epoch` ends."""
    return end.leader_epoch >= 0 and end.end_offset >= known.offset


def scan_start(scan: Scan, end: EpochEnd, *, log_start_offset: int) -> int:
    """Where to begin to read all, by the leader's answer of where `scan.leader_epoch` ends."""
    return min(scan.start_offset, end.end_offset) if end.leader_epoch >= 0 else log_start_offset
