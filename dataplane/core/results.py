"""A replica's inputs and its answers, partition by partition. Values only."""

from __future__ import annotations

import msgspec

from dataplane.core.compaction.rounds import CompactionOptions
from dataplane.core.guards import Guard
from dataplane.core.log_port import Buffer, LogSlice
from dataplane.core.producer_state import ProducerView
from dataplane.core.transactions import IsolationLevel
from springtide.contract.epochs import NO_LEADER_EPOCH, LeaderEpoch
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction, AppliedRound, Compacted, EpochEnd
from springtide.wire.refused_records import RefusedRecords

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

ACKS_ALL = -1

FETCH_BYTES_MAX = 1024 * 1024
"""The default for one partition in one fetch."""


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that operators may tune, per topic or per broker; times in ms.

    lag_ms_max: replica.lag.time.max.ms. is_append_time: message.timestamp.type=LogAppendTime.
    proposal_retry_ms: how long an unanswered proposal rests before it is sent again, unchanged.
    refused_retry_ms: how long a follower that the controller called ineligible is not proposed again.
    fetch_bytes_max: replica.fetch.max.bytes. fetch_backoff_ms: after a leader's error. copy_retry_ms: after
        a failed copy of what is to be cut.
    waiters_max: producers that may wait in one partition; the next one is refused before the append.
    compaction: None unless cleanup.policy has compact. is_compact_only: it has nothing else, so that clients
        delete no records.
    """

    lag_ms_max: int = 10_000
    is_append_time: bool = False
    proposal_retry_ms: int = 1_000
    refused_retry_ms: int = 1_000
    fetch_bytes_max: int = FETCH_BYTES_MAX
    fetch_backoff_ms: int = 200
    copy_retry_ms: int = 5_000
    waiters_max: int = 100_000
    compaction: CompactionOptions | None = None
    is_compact_only: bool = False


class TxnContext(msgspec.Struct, frozen=True):
    """What a Produce request says of the transaction that its batches belong to.

    is_v2: the client leaves it to the leader to add the partition to the transaction (KIP-890, Produce from
        version 12 on). verified: the guard that an earlier append of this batch returned, once the
        coordinator has confirmed it.
    """

    transactional_id: str
    is_v2: bool
    verified: Guard | None = None


class AppendResult(msgspec.Struct, frozen=True):
    """The answer to one produced batch, once it may be given.

    is_waiting: don't answer yet; a CompleteProduce names the waiter later, with the final error; the other
        fields stand. base_offset: -1 with an error, or for a duplicate too old to know (success all the
        same). log_append_time_ms: -1 unless the topic has LogAppendTime. refused: which records are wrong,
        and why, of a batch that is refused for its records.
    must_verify: nothing was written, and this is no answer yet. Ask the coordinator whether this partition is
        in the producer's ongoing transaction, and append the batch again with this guard.
    """

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    is_waiting: bool = False
    refused: RefusedRecords | None = None
    must_verify: Guard | None = None


class FetchResult(msgspec.Struct, frozen=True):
    """One partition of a Fetch answer. `records` is None exactly when there is an error or a divergence; the
    slice's parts are views and file ranges, to be sent without copying.

    On errors offsets are -1, but OFFSET_OUT_OF_RANGE carries log_start_offset, which a follower needs.
    found_no_room: there are records, but not even the first batch may be sent within the limits of this
    evaluation. compacted: for followers, and for readers below its floor. applied_round: for debugging
    consumers. producers: for a follower that asked, what the leader knows of producers below its fetch
    offset, and then no record.
    unstable_from: the last stable offset, where it lies below the high watermark; -1: it is the high
    watermark. For consumers only. aborted: of a consumer that reads committed records only, the aborted
    transactions that have records in this answer, in order of their first offsets; None: of another.
    """

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    records: LogSlice | None = None
    diverging: EpochEnd | None = None
    found_no_room: bool = False
    compacted: Compacted | None = None
    applied_round: AppliedRound | None = None
    producers: bytes = b""
    unstable_from: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None

    @property
    def last_stable_offset(self) -> int:
        """Return where readers of committed records stop; -1 on errors."""
        return self.high_watermark if self.unstable_from < 0 else self.unstable_from


class EpochEndResult(msgspec.Struct, frozen=True):
    """One partition of an OffsetForLeaderEpoch answer; (-1, -1) is undefined."""

    error: ErrorCode
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    end_offset: int = -1


class ProducersResult(msgspec.Struct, frozen=True):
    """One partition of a DescribeProducers answer: its active producers in order of id."""

    error: ErrorCode
    producers: tuple[ProducerView, ...] = ()


class OffsetResult(msgspec.Struct, frozen=True):
    """One partition of a ListOffsets answer; offset -1 without an error if there is no such record."""

    error: ErrorCode
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class DeletionResult(msgspec.Struct, frozen=True):
    """One partition of a DeleteRecords answer, once it may be given.

    low_watermark: below it no replica that may be elected has records; -1 with an error. is_waiting: don't
        answer yet; a CompleteDeletion names the waiter later, with the final result.
    """

    error: ErrorCode
    low_watermark: int = -1
    is_waiting: bool = False


class TimestampLookup(msgspec.Struct, frozen=True):
    """The question of a ListOffsets to the log: the first record at or after `timestamp_ms`, or, if that is
    None, the one with the largest timestamp; below `end_offset`. Its answer goes to `on_looked_up`."""

    timestamp_ms: int | None
    leader_epoch: LeaderEpoch
    end_offset: int
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED


class LeaderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a leader's Fetch answer, as the follower got it. `records`: whole batches, perhaps
    a cut-off one at the end, which is ignored. compacted: what is gone from the leader's log; None:
    nothing. producers: as in FetchResult."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    records: Buffer = b""
    compacted: Compacted | None = None
    producers: Buffer = b""
