"""The actions that a partition's delivery asks for, one at a time, and the events with which its shell
answers. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd

NO_SEQUENCE = -1
NO_EPOCH = -1


class Batch(NamedTuple):
    """One record batch as it is sent. Sequences are inclusive and count from 0 in each micro-batch, task and
    partition. crc: of the batch without its header."""

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
    """The task's records up to `sequence` have been compared, and are committed below `offset` in the log of
    the leader of `leader_epoch`."""

    sequence: int
    offset: int
    leader_epoch: int


class Failure(Enum):
    """Why an attempt of a task can't continue. Spark runs it again, which does not help for FENCED,
    FORGOTTEN, PLAN_CHANGED and GAP."""

    FENCED = "a later micro-batch of this sink has written"
    FORGOTTEN = "this micro-batch has written before, and its checkpoint does not know it"
    PLAN_CHANGED = "an earlier attempt of this task stored records that are not among this attempt's rows"
    OVERTAKEN = "another attempt of this task has stored other rows at the same time"
    RECORDS_LOST = "brokers lost records that they had stored"
    GAP = "records are missing in the middle of what is stored"
    REFUSED = "brokers refuse the records"
    STALLED = "no progress"


# Events.


@dataclass(frozen=True, slots=True)
class Opened:
    """The task has rows for the partition, and needs to know what is stored."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The task has another batch for the partition, which follows the last one."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Ended:
    """The task has no more batches for the partition."""


@dataclass(frozen=True, slots=True)
class Away:
    """The task waited for its rows for so long, and took no answers in: that is not the brokers' delay."""

    away_ms: int


@dataclass(frozen=True, slots=True)
class Described:
    """The leader's answers to DescribeProducers, and then ListOffsets. leader_epoch: the second answer's.
    producer_epoch, last_sequence: NO_EPOCH and NO_SEQUENCE if the partition does not know the producer.
    end_offset: where the log of `leader_epoch` ended after that, committed or not (OffsetForLeaderEpoch); -1
    if it was not asked for, as it is only for a producer of our own epoch."""

    leader_epoch: int
    producer_epoch: int = NO_EPOCH
    last_sequence: int = NO_SEQUENCE
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class Scanned:
    """All batches from the scan's start to the high watermark, `end_offset`.

    leader_epoch: the leader's before *and* after the log was read; if those differ, it is NoUsableAnswer.
    producer_epoch: the newest epoch of the producer in that range, or NO_EPOCH.
    last_sequence: the end of our own epoch's run without a gap, or where it was to begin.
    batches: those of that run.
    anomaly: our own epoch's sequences after a gap, or twice; "" if there are none.
    """

    leader_epoch: int
    producer_epoch: int = NO_EPOCH
    last_sequence: int = NO_SEQUENCE
    batches: tuple[Stored, ...] = ()
    end_offset: int = 0
    anomaly: str = ""


@dataclass(frozen=True, slots=True)
class SendAnswered:
    """The answer to a Produce with acks=all. NONE: records of these sequences are committed. base_offset:
    where the batch was appended; -1: it may be a duplicate, so other records may stand under these
    sequences."""

    error: ErrorCode
    message: str = ""
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class Checked:
    """The leader's latest offset."""

    leader_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class NoUsableAnswer:
    """The action has no answer that can be used: it may have been done or not."""

    reason: str


@dataclass(frozen=True, slots=True)
class Woken:
    """The pause is over."""


Event = (
    Opened | Offered | Ended | Away | Described | Scanned | SendAnswered | Checked | NoUsableAnswer | Woken
)


# Actions.


@dataclass(frozen=True, slots=True)
class AwaitBatch:
    """Wait until the task has another batch or has ended."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Ask the leader for the producer, then for the high watermark, then for the log's end if the producer
    has our own epoch. The answer is Described."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Read what is stored up to the high watermark. The answer is Scanned.

    With `known`: only what follows it, if the log is still whole up to there (`is_whole`). Else everything
    from `scan_start`: `start_offset`, or where `leader_epoch` ends in the leader's log if that is lower (an
    unclean election may have cut the log below the opening), or the log's start if the leader does not know
    the epoch.
    """

    start_offset: int
    leader_epoch: int
    known: Known | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Produce this batch with acks=all. The answer is SendAnswered.

    If the shell knows a leader of a later epoch than `leader_epoch`, it sends nothing and answers
    NoUsableAnswer: a leader that does not know this producer takes any sequence from it (KIP-360), which may
    leave a gap for good.
    """

    batch: Batch
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class CheckWatermark:
    """Ask the leader for the high watermark. The answer is Checked."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so long. The answer is Woken."""

    pause_ms: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """All records are stored once, in order, and committed. They are there while the log is whole up to
    `high_watermark` of `leader_epoch`, which the commit of the micro-batch asks again
    (OffsetForLeaderEpoch)."""

    records: int
    leader_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Failed:
    """This attempt can't deliver. What it stored stays, and another attempt continues from there. advice:
    what a person can do; may be empty."""

    failure: Failure
    detail: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.failure.value}: {self.detail}"


Action = AwaitBatch | Describe | Scan | Send | CheckWatermark | Pause | Delivered | Failed


def is_whole(known: Known, end: EpochEnd) -> bool:
    """Return whether the log still holds what is known; `end`: where `known.leader_epoch` ends."""
    return end.leader_epoch >= 0 and end.end_offset >= known.offset


def scan_start(scan: Scan, end: EpochEnd, *, log_start_offset: int) -> int:
    """Return where to begin to read everything; `end`: where `scan.leader_epoch` ends."""
    return min(scan.start_offset, end.end_offset) if end.leader_epoch >= 0 else log_start_offset
