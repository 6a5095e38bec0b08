"""The parts that a replica keeps through all its roles, and its answers while it has none.

A replica leads (leader.py), follows (follower.py), is offline, or has no role. Each role has the surface of
`ReplicaRole`: what time and disk bring to any replica, and what clients and followers may ask of any, because
they can be wrong about who leads. `ReplicaRole` refuses it all, so that a caller asks `replica.role` without
a test of its kind. What this broker itself asks of a leader or of a follower stands in these classes alone;
`replica.leading` and `replica.following` are the role as such, or None.

A role is dropped as a whole with what it knows; the log, the high watermark and the waiting producers are the
replica's and outlive it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from itertools import count
from typing import ClassVar
from weakref import proxy

from dataplane.core.effects import (
    LEADERSHIP_CHANGED,
    NO_EFFECTS,
    STOP_FETCHING,
    CheckAtRest,
    CompleteDeletion,
    CompleteProduce,
    Effects,
    ReportProblem,
)
from dataplane.core.fetch import ConsumerFetch, ReplicaFetch
from dataplane.core.leader_epochs import UNDEFINED_END
from dataplane.core.log_port import LogError, LogPort, LogSlice, RottenBytes, SuspectBytes, TimestampHit
from dataplane.core.purgatory import Purgatory
from dataplane.core.results import (
    AppendResult,
    DeletionResult,
    EpochEndResult,
    FetchResult,
    OffsetResult,
    ProducersResult,
    ReplicaOptions,
    TimestampLookup,
    TxnContext,
)
from dataplane.core.transactions import IsolationLevel, MarkerToWrite
from dataplane.core.watermarks import HighWatermark, StoredLogStart
from springtide.contract.epochs import NO_LEADER_EPOCH, LeaderEpoch
from springtide.contract.lag_report import ProblemCode, ReplicaProblem
from springtide.contract.partition_state import PartitionState
from springtide.contract.transactions import OpenTransactions
from springtide.contract.updates import BrokerEndpoint
from springtide.node.lease import Lease
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction
from springtide.wire.record_batch import BatchHeader


@dataclass(slots=True, weakref_slot=True, eq=False, kw_only=True)
class ReplicaParts:
    """The parts of a replica that its roles share.

    lease, brokers: the process's, shared by all its replicas and read only here. `brokers` is the live table
        of endpoints, with this broker's own; after a change of it the shell calls `on_broker_changed` of
        every replica that this broker leads.
    checkpointed: the stored high watermark; clamped into the log.
    state: the last applied state.
    """

    broker_id: int
    topic_id: str
    partition: int
    log: LogPort
    lease: Lease
    brokers: Mapping[int, BrokerEndpoint]
    options: ReplicaOptions
    checkpointed: InitVar[int] = 0
    state: PartitionState | None = None
    watermark: HighWatermark = field(init=False)
    log_start: StoredLogStart = field(init=False)
    purgatory: Purgatory = field(init=False, default_factory=Purgatory)
    #: DeleteRecords that wait for other replicas' log starts.
    deletions: Purgatory = field(init=False, default_factory=Purgatory)
    # Never reused within this incarnation, through all roles.
    proposal_ids: Iterator[int] = field(init=False, default_factory=lambda: count(1))
    hold_ids: Iterator[int] = field(init=False, default_factory=lambda: count(1))
    role: ReplicaRole = field(init=False)

    def __post_init__(self, checkpointed: int) -> None:
        self.watermark = HighWatermark(self.log, checkpointed=checkpointed)
        self.log_start = StoredLogStart(self.log)
        self.role = ReplicaRole(self)

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """Return -1 before the first state."""
        return NO_LEADER_EPOCH if self.state is None else self.state.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self.watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """Return where readers of committed records stop (transactions.py). What is deleted is not waited
        for."""
        stable = self.log.producers.transactions.last_stable_offset(self.watermark.offset)
        return max(stable, self.log.log_start_offset)

    @property
    def has_waiters(self) -> bool:
        return len(self.purgatory) > 0 or len(self.deletions) > 0

    def retire(self, error: ErrorCode) -> Effects:
        """Drop the present role, and fail all that wait (L1, no waiter hangs)."""
        was_assigned = self.role.is_assigned
        if was_assigned:
            self.role = ReplicaRole(self)
        effects: Effects = (LEADERSHIP_CHANGED,) if was_assigned else NO_EFFECTS
        if waiters := self.deletions.take_all():
            effects = (CompleteDeletion(waiters, DeletionResult(error)), *effects)
        if waiters := self.purgatory.take_all():
            effects = (CompleteProduce(waiters, error), *effects)
        return effects

    def go_offline(self, detail: str) -> Effects:
        """End this replica for the rest of this process: after a failed write the content of the disk is
        unknown."""
        if isinstance(self.role, Offline):
            return NO_EFFECTS
        effects = self.retire(ErrorCode.KAFKA_STORAGE_ERROR)
        self.role = Offline(self)
        return (*effects, STOP_FETCHING, self.problem(ProblemCode.STORAGE_ERROR, detail))

    def rot_problem(self) -> ReportProblem:
        """Return the report that this log is rotten, which it is."""
        rotten = self.log.rotten
        first = rotten[0]
        return self.problem(
            ProblemCode.ROTTEN,
            f"{first.reason}; {len(rotten)} ranges, records from {first.first_offset} on",
            first_offset=first.first_offset,
            next_offset=rotten[-1].next_offset,
        )

    def problem(
        self,
        code: ProblemCode,
        detail: str,
        *,
        leader_epoch: LeaderEpoch | None = None,
        first_offset: int = -1,
        next_offset: int = -1,
        broker_id: int = -1,
    ) -> ReportProblem:
        """Return the report of a problem; without a leader epoch, of the present one."""
        return ReportProblem(
            ReplicaProblem(
                topic_id=self.topic_id,
                partition=self.partition,
                code=code,
                detail=detail,
                leader_epoch=LeaderEpoch(self.leader_epoch if leader_epoch is None else leader_epoch),
                first_offset=first_offset,
                next_offset=next_offset,
                high_watermark=self.watermark.offset,
                broker_id=broker_id,
            )
        )


class ReplicaRole:
    """The surface of all roles, and the role of a replica without one: it refuses what it is asked.

    All times `now_ms` are of one monotonic clock; `wall_ms` is Unix time, for what is stored. Errors that
    peers cause are error codes in results. A LogError takes the replica offline.
    """

    __slots__ = ("_log", "_log_start", "_replica", "_watermark")

    name: ClassVar[str] = "none"
    refusal: ClassVar[ErrorCode] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_assigned: ClassVar[bool] = False
    """True if the controller's state makes this replica lead or follow."""

    def __init__(self, replica: ReplicaParts) -> None:
        # Without a cycle, the files of a deleted log are closed as soon as the last reader lets go of it.
        self._replica: ReplicaParts = proxy(replica)
        self._log = replica.log
        self._watermark = replica.watermark
        self._log_start = replica.log_start

    def standing_effects(self) -> Effects:
        return (STOP_FETCHING,)

    @property
    def is_at_rest(self) -> bool:
        """Return whether `on_tick` has nothing to do until something else happens to this replica."""
        return True

    def on_tick(self, now_ms: int) -> Effects:
        """Timeouts, lapse of the lease, lagging followers, retries. Cheap when nothing is due. Call every
        ~100 ms for replicas with `has_waiters`, every ~500 ms for others that are not at rest."""
        return NO_EFFECTS

    def on_vouched(self, *, now_ms: int) -> Effects:
        """The effect `Vouch` is durable: the leader may commit, the follower fetches on."""
        return NO_EFFECTS

    def on_log_start_stored(self, offset: int, *, now_ms: int) -> Effects:
        """The effect `LogStartMoved` is durable, up to this offset."""
        self._log_start.on_stored(offset)
        return NO_EFFECTS

    # What others ask of this partition, whose address for it may be out of date.

    def may_serve(self, now_ms: int) -> bool:
        """Return whether this leader may append, ack and answer reads: the lease is held, or the in-sync set
        stands in for it (at least max(2, min) members, all fetching in this leader epoch within the lease
        time)."""
        return False

    def append(
        self,
        header: BatchHeader,
        batch: memoryview,
        *,
        acks: int,
        waiter: object,
        expires_ms: int,
        now_ms: int,
        wall_ms: int,
        txn: TxnContext | None = None,
    ) -> tuple[AppendResult, Effects]:
        """Append one batch that passed `check_produced_batch` and `check_produced_records`; `batch` is its
        whole bytes, not kept.

        acks: -1 all, 1 leader, 0 none (the shell sends no answer, but closes the connection on an error).
        waiter: any object; comes back in CompleteProduce if the result `is_waiting`, at the latest at
        `expires_ms` (monotonic), with REQUEST_TIMED_OUT or NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        Errors before anything was written: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, THROTTLING_QUOTA_EXCEEDED (too many waiters).
        KAFKA_STORAGE_ERROR says nothing about what was written. NOT_ENOUGH_REPLICAS is also said to a
        producer that this log does not know, in the middle of its sequences (6.6, unknown ids).
        txn: of a transactional batch. The first one of a transaction comes back with `must_verify`, and
        nothing is written before it is appended again with that guard (KIP-890). INVALID_TXN_STATE: it is not
        of a transaction and the producer has one open here; or it is, and its transaction has ended.
        """
        return AppendResult(self.refusal), NO_EFFECTS

    def write_marker(
        self, marker: MarkerToWrite, *, waiter: object, expires_ms: int, now_ms: int, wall_ms: int
    ) -> tuple[AppendResult, Effects]:
        """End a producer's transaction here, for its coordinator; the answer waits as under acks=all.

        Errors before anything was written: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
        THROTTLING_QUOTA_EXCEEDED, KAFKA_STORAGE_ERROR (no room), INVALID_TOPIC_EXCEPTION (a shard's log),
        TRANSACTION_COORDINATOR_FENCED (a later coordinator has written), INVALID_PRODUCER_EPOCH.
        """
        return AppendResult(self.refusal), NO_EFFECTS

    def open_transactions(self, now_ms: int) -> OpenTransactions | None:
        """Return what is open here, as a leader tells of it; None: nothing, or this replica does not lead."""
        return None

    def describe_producers(self, now_ms: int, *, is_copy_enough: bool = False) -> ProducersResult:
        """Return the producers that this partition remembers, with the last sequence of each. Only a leader
        that may serve answers: what another replica lacks, its reader would write again (6.9, named producer
        ids). is_copy_enough: the reader writes nothing by it, so a follower may answer, too."""
        return ProducersResult(self.refusal)

    def on_replica_fetch(self, fetch: ReplicaFetch, *, now_ms: int) -> tuple[FetchResult, Effects]:
        """Answer a follower."""
        return FetchResult(self.refusal), NO_EFFECTS

    def on_consumer_fetch(self, fetch: ConsumerFetch, *, now_ms: int) -> tuple[FetchResult, Effects]:
        """Answer a consumer. Never reads at or beyond the high watermark (I18, reads stop at the high
        watermark), which at a follower is its own (2.11, reads from followers). A client that is not
        debugging gets an answer from a follower only while it is in sync, and only if it states the leader
        epoch: a client that states none may take the follower for the leader."""
        return FetchResult(self.refusal), NO_EFFECTS

    def offset_for_leader_epoch(
        self, *, current_leader_epoch: int, leader_epoch: LeaderEpoch, now_ms: int
    ) -> EpochEndResult:
        """Return where `leader_epoch` ends in this leader's log (KIP-101); current_leader_epoch -1: not
        stated."""
        return EpochEndResult(self.refusal)

    def list_offset(
        self,
        timestamp_ms: int,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> OffsetResult | TimestampLookup:
        """Answer one of the special timestamps, or a timestamp >= 0; what has to be looked up in the log
        comes back as a TimestampLookup. No "latest" before this leader has committed past the start of its
        epoch: OFFSET_NOT_AVAILABLE (I19, no latest offset before it is known). Unknown special timestamps:
        UNSUPPORTED_VERSION. A reader of committed records is told of none at or beyond the last stable
        offset."""
        return OffsetResult(self.refusal)

    def on_looked_up(
        self, lookup: TimestampLookup, found: TimestampHit | LogError | None, *, now_ms: int
    ) -> tuple[OffsetResult | TimestampLookup, Effects]:
        """Judge what the log answered, perhaps some time ago. A lookup again if the log has changed under
        it."""
        return OffsetResult(self.refusal), NO_EFFECTS

    def delete_records(
        self, before_offset: int, *, waiter: object, expires_ms: int, now_ms: int
    ) -> tuple[DeletionResult, Effects]:
        """Move the log start for a client (DeleteRecords): never past the high watermark, and only while this
        leader may serve (I26, start, high watermark and end in order). -1: up to the high watermark.

        waiter: any object; comes back in CompleteDeletion if the result `is_waiting`, when every replica that
        may be elected has stored as high a log start (I37, what a client deleted stays deleted), or at
        `expires_ms` (monotonic) with REQUEST_TIMED_OUT.
        Errors before anything was deleted: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE,
        LEADER_NOT_AVAILABLE (what is committed is not known yet), POLICY_VIOLATION (a shard's log, or
        one that is compacted and nothing else),
        THROTTLING_QUOTA_EXCEEDED (too many waiters).
        """
        return DeletionResult(self.refusal), NO_EFFECTS

    # What leader and follower share.

    def _read_committed(self, fetch: ConsumerFetch, high_watermark: int) -> tuple[FetchResult, Effects]:
        """Return records from the fetch's offset on, none at or beyond the high watermark, which the caller
        took once, before this call (I18, reads stop at the high watermark). A reader of committed records
        gets none at or beyond the last stable offset, and is told what was aborted below. Of a client that is
        debugging: read the files, because that is what a verification checks."""
        log = self._log
        fetch_offset = fetch.position.fetch_offset
        compacted = log.rounds.compacted
        if compacted is not None and fetch_offset >= compacted.tombstone_floor:
            compacted = None
        end_offset, unstable_from = high_watermark, -1
        is_stable_only = fetch.isolation is IsolationLevel.READ_COMMITTED
        stable = log.producers.transactions.last_stable_offset(high_watermark)
        if stable < high_watermark:
            unstable_from = max(stable, log.log_start_offset)
            if is_stable_only:
                end_offset = unstable_from
        aborted = None
        if fetch_offset < end_offset:
            try:
                records = log.read(
                    fetch_offset,
                    max_bytes=fetch.max_bytes,
                    end_offset=end_offset,
                    at_least_one=fetch.at_least_one,
                    from_disk=fetch.is_debugging,
                )
                if is_stable_only and (found := log.aborted_in(fetch_offset, records.next_offset)):
                    aborted = tuple(AbortedTransaction(each[0], each[1]) for each in found)
            except LogError as error:
                error_code, effects = self._on_read_error(error)
                return FetchResult(error_code), effects
        else:
            records = LogSlice((), 0, fetch_offset)
        return (
            FetchResult(
                ErrorCode.NONE,
                high_watermark,
                log.log_start_offset,
                records,
                None,
                not fetch.at_least_one and not records.size_bytes and fetch_offset < end_offset,
                compacted,
                unstable_from=unstable_from,
                aborted=aborted,
            ),
            NO_EFFECTS,
        )

    def _on_read_error(self, error: LogError) -> tuple[ErrorCode, Effects]:
        """Return the answer to a read that failed. Damage below the high watermark is the scrub's, as if it
        had found it (5.7, scrubbing). Above, no other replica need have what stood there."""
        if isinstance(error, RottenBytes):
            return ErrorCode.CORRUPT_MESSAGE, NO_EFFECTS
        if isinstance(error, SuspectBytes):
            if error.bad_offset < self._watermark.offset:
                return ErrorCode.CORRUPT_MESSAGE, (CheckAtRest(error.first_offset),)
            self._log.condemn(str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR, self._replica.go_offline(str(error))


class Offline(ReplicaRole):
    """The role of a replica whose log failed; it has no other one in this process."""

    __slots__ = ()

    name = "offline"
    refusal = ErrorCode.KAFKA_STORAGE_ERROR


def check_position(log: LogPort, fetch_offset: int, last_fetched_epoch: LeaderEpoch) -> FetchResult | None:
    """Return None if the fetcher's log is a prefix of this one and its next record lies within it; else the
    answer (5.2, the exchange). Below the log start wins over diverging: the point of divergence may lie below
    it as well."""
    end_offset = log.log_end_offset
    if fetch_offset < log.log_start_offset:
        return out_of_range(log)
    if last_fetched_epoch >= 0:
        epochs = log.epochs
        if last_fetched_epoch == epochs.latest and fetch_offset <= end_offset:
            return None
        end = epochs.end_offset_for(last_fetched_epoch, log_end_offset=end_offset)
        if end == UNDEFINED_END:  # never take the log's end for it (KAFKA-6857)
            return out_of_range(log)
        if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return FetchResult(ErrorCode.NONE, diverging=end)
    if fetch_offset > end_offset:
        return out_of_range(log)
    return None


def check_epoch_start(log: LogPort, fetch_offset: int, last_fetched_epoch: LeaderEpoch) -> FetchResult | None:
    """Return None if a replica that ends at `fetch_offset` can have reached its newest epoch; else the answer
    by which it cuts that epoch. It led it, its host went back (3.10, a host that goes back), and it led it
    again from an earlier offset. What this log has there is of an epoch before, which it would refuse."""
    epochs = log.epochs
    if last_fetched_epoch < 1 or fetch_offset >= epochs.start_offset_of(last_fetched_epoch):
        return None
    end = epochs.end_offset_for(last_fetched_epoch - 1, log_end_offset=log.log_end_offset)
    return FetchResult(ErrorCode.NONE, diverging=end)


def out_of_range(log: LogPort) -> FetchResult:
    return FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=log.log_start_offset)
