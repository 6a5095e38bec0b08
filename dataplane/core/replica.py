"""One partition on this broker: what it may do, decided from its state, its log and the time it is told.

              on_partition_state: leader = me                     leader = other
      none --------------------------------> leader <-----------------------> follower
        ^                                      |   LogError anywhere             |
        +-- I am not among the replicas        +-------------> offline <---------+  (for this process's life)

Rules, in short:
 1. A state is applied iff its partition epoch is higher than the one held (I6); a higher leader epoch is
    always a fresh leadership, also for a leader that stays (I3, S7): follower positions are forgotten.
 2. What is committed rests on epochs and set inclusion (isr.py, watermarks.py), never on clocks. The lease
    only silences (lease.py).
 3. Every public method is one no-await step: it checks, writes to the log through the port, and updates its
    state together. Nothing waits here; what has to wait is an effect or a parked waiter (purgatory.py).
 4. A state counts as applied only after its transition is complete; delivering it again repeats the standing
    effects (I25, S33).

This class keeps the role and goes from one to the other; `Leader` (leader.py) and `Follower` (follower.py)
do the work. Errors that peers cause are error codes in results; LogError takes the replica offline for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import count

from controller.contract.errors import ControllerError
from controller.contract.lag_report import IsrProposal, IsrProposalResult, PartitionLag, ReplicaProblem
from controller.contract.partition_state import PartitionState
from controller.contract.updates import BrokerEndpoint
from dataplane.core.effects import (
    LEADERSHIP_CHANGED,
    NO_EFFECTS,
    PERSIST_EPOCHS,
    STOP_FETCHING,
    CheckAtRest,
    CompleteProduce,
    Effects,
    Note,
    ReportProblem,
)
from dataplane.core.fetch_session import Contact, FetchPosition
from dataplane.core.follower import Follower
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogChanged, LogError, LogPort, RottenBytes, SuspectBytes, TimestampHit
from dataplane.core.purgatory import Purgatory
from dataplane.core.results import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AppendResult,
    EpochEndResult,
    FetchedPartition,
    FetchResult,
    OffsetResult,
    ProducersResult,
    ReplicaOptions,
    TimestampLookup,
)
from dataplane.core.watermarks import HighWatermark
from springtide.node.lease import Lease
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch import LogMark
from springtide.wire.record_batch import BatchHeader

__all__ = [
    "EARLIEST_LOCAL_TIMESTAMP",
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "AppendResult",
    "EpochEndResult",
    "FetchResult",
    "FetchedPartition",
    "OffsetResult",
    "Replica",
    "ReplicaOptions",
    "Role",
]


class Role(StrEnum):
    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


class Replica:
    """All times `now_ms` are of one monotonic clock; `wall_ms` is Unix time, for what is stored.

    lease, brokers: the process's, shared by all its replicas and read only here. `brokers` is the live table
        of endpoints, with this broker's own; after a change of it the shell calls `on_broker_changed` of
        every replica that this broker leads.
    high_watermark: from the checkpoint; clamped into the log.
    """

    __slots__ = (
        "_broker_id",
        "_brokers",
        "_follower",
        "_hold_ids",
        "_is_offline",
        "_leader",
        "_lease",
        "_log",
        "_options",
        "_partition",
        "_proposal_ids",
        "_purgatory",
        "_state",
        "_topic_id",
        "_watermark",
    )

    def __init__(
        self,
        *,
        broker_id: int,
        topic_id: str,
        partition: int,
        log: LogPort,
        lease: Lease,
        brokers: Mapping[int, BrokerEndpoint],
        options: ReplicaOptions,
        high_watermark: int = 0,
    ) -> None:
        self._broker_id = broker_id
        self._topic_id = topic_id
        self._partition = partition
        self._log = log
        self._lease = lease
        self._brokers = brokers
        self._options = options
        self._watermark = HighWatermark(log, checkpointed=high_watermark)
        self._purgatory = Purgatory()
        self._state: PartitionState | None = None
        self._leader: Leader | None = None
        self._follower: Follower | None = None
        self._is_offline = False
        # Never reused within this incarnation, whatever roles it goes through.
        self._proposal_ids = count(1)
        self._hold_ids = count(1)

    # What it is now.

    @property
    def role(self) -> Role:
        if self._is_offline:
            return Role.OFFLINE
        if self._leader is not None:
            return Role.LEADER
        return Role.NONE if self._follower is None else Role.FOLLOWER

    @property
    def topic_id(self) -> str:
        return self._topic_id

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def state(self) -> PartitionState | None:
        """The last applied state."""
        return self._state

    @property
    def log(self) -> LogPort:
        return self._log

    @property
    def leader_epoch(self) -> int:
        """-1 before the first state."""
        return -1 if self._state is None else self._state.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self._watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, while there are no transactions."""
        return self._watermark.offset

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Committed ISR plus promised additions, in assignment order; empty unless leader."""
        return () if self._leader is None else self._leader.in_sync.maximal_isr

    @property
    def epoch_start_offset(self) -> int:
        """The leader's log end when its leader epoch began; -1 unless leader."""
        return -1 if self._leader is None else self._leader.in_sync.epoch_start_offset

    @property
    def last_fetched_ms(self) -> int | None:
        """When the leader last answered this follower without an error, in this leader epoch."""
        return None if self._follower is None else self._follower.last_fetched_ms

    @property
    def has_waiters(self) -> bool:
        return len(self._purgatory) > 0

    def may_serve(self, now_ms: int) -> bool:
        """Whether this leader may append, ack and answer reads: the lease is held, or the in-sync set stands
        in for it (at least max(2, min) members, all fetching in this leader epoch within the lease time)."""
        return self._leader is not None and self._leader.may_serve(now_ms)

    # Control.

    def on_partition_state(self, state: PartitionState, *, now_ms: int) -> Effects:
        """The controller's word, from a batch or a proposal's answer. Older or equal partition epochs change
        nothing; an equal one repeats the standing effects. The caller has checked topic id, controller epoch
        and broker epoch of the batch (I5, I8, I21)."""
        assert (state.topic_id, state.partition) == (self._topic_id, self._partition)
        current = self._state
        if current is not None:
            if state.partition_epoch == current.partition_epoch:
                standing = self._standing_effects()
                return (*standing, self._rot_problem()) if self._log.rotten else standing
            if state.partition_epoch < current.partition_epoch:
                return NO_EFFECTS
            if state.leader_epoch < current.leader_epoch:
                return (
                    Note(
                        f"partition epoch {state.partition_epoch} goes back from leader epoch "
                        f"{current.leader_epoch} to {state.leader_epoch}: ignored",
                        is_warning=True,
                    ),
                )
        if self._is_offline:
            self._state = state
            return NO_EFFECTS
        try:
            if state.leader == self._broker_id:
                effects = self._lead(state, now_ms)
            elif self._broker_id in state.replicas:
                effects = self._follow(state)
            else:
                effects = self._leave()
        except LogError as error:
            self._state = state
            return self._go_offline(str(error))
        self._state = state
        # 5.7: told with every state in which this replica has a seat, until it has none: the controller
        # remembers nothing of it, and may take the seat only when another can lead.
        has_seat = self._broker_id in state.isr or self._broker_id in state.elr
        if self._log.rotten and (has_seat or current is None):
            return (*effects, self._rot_problem())
        return effects

    def _rot_problem(self) -> ReportProblem:
        rotten = self._log.rotten
        first = rotten[0]
        detail = f"{first.reason}; {len(rotten)} ranges, records from {first.first_offset} on"
        return ReportProblem(
            ReplicaProblem(
                topic_id=self._topic_id,
                partition=self._partition,
                code="rotten",
                detail=detail,
                leader_epoch=self.leader_epoch,
                first_offset=first.first_offset,
                next_offset=rotten[-1].next_offset,
                high_watermark=self._watermark.offset,
            )
        )

    def _lead(self, state: PartitionState, now_ms: int) -> Effects:
        leader = self._leader
        if leader is not None and leader.leader_epoch == state.leader_epoch:
            return leader.on_state(state, now_ms)
        log = self._log
        if log.epochs.latest > state.leader_epoch:
            # Only a controller that lost its memory elects into the past. What was written in the later
            # epoch may be committed: touch nothing, lead nothing, call for help.
            detail = f"elected in leader epoch {state.leader_epoch}, but the log holds {log.epochs.latest}"
            return (*self._leave(), self._problem("quarantined", detail, state.leader_epoch))
        log.begin_leader_epoch(state.leader_epoch)
        if state.unclean_leader_epoch > log.epochs.reconciled:
            # Every log is to agree with this one from here on; no mark so far may make it cut (I15).
            log.note_reconciled(state.leader_epoch)
        was_following = self._follower is not None
        self._follower = None
        # Waiting producers stay: as long as this replica has not followed anyone, its log still holds what
        # they wrote, and the purgatory checks that again before it says so (I4).
        self._leader = Leader(
            state,
            broker_id=self._broker_id,
            log=log,
            watermark=self._watermark,
            purgatory=self._purgatory,
            lease=self._lease,
            brokers=self._brokers,
            options=self._options,
            proposal_ids=self._proposal_ids,
            epoch_start_offset=log.epochs.latest_start_offset,
            now_ms=now_ms,
        )
        effects: Effects = (PERSIST_EPOCHS, LEADERSHIP_CHANGED, *self._leader.begin(now_ms))
        return (STOP_FETCHING, *effects) if was_following else effects

    def _follow(self, state: PartitionState) -> Effects:
        follower = self._follower
        current = self._state
        if (
            follower is not None
            and current is not None
            and (current.leader_epoch, current.leader) == (state.leader_epoch, state.leader)
        ):
            return follower.on_state(state)
        effects = self._retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._follower = Follower(
            state,
            broker_id=self._broker_id,
            log=self._log,
            watermark=self._watermark,
            lease=self._lease,
            options=self._options,
            hold_ids=self._hold_ids,
        )
        return effects + self._follower.standing_effects()

    def _leave(self) -> Effects:
        return (*self._retire(ErrorCode.NOT_LEADER_OR_FOLLOWER), STOP_FETCHING)

    def _retire(self, error: ErrorCode) -> Effects:
        """Drop the present role; no producer waits on in vain (L1)."""
        was_served = self._leader is not None or self._follower is not None
        self._leader = None
        self._follower = None
        waiters = self._purgatory.take_all()
        effects: Effects = (LEADERSHIP_CHANGED,) if was_served else NO_EFFECTS
        return (CompleteProduce(waiters, error), *effects) if waiters else effects

    def _go_offline(self, detail: str) -> Effects:
        """After a failed write nobody knows what the disk holds: this replica is over for this process."""
        if self._is_offline:
            return NO_EFFECTS
        effects = self._retire(ErrorCode.KAFKA_STORAGE_ERROR)
        self._is_offline = True
        return (*effects, STOP_FETCHING, self._problem("storage_error", detail, self.leader_epoch))

    def _standing_effects(self) -> Effects:
        if self._follower is not None:
            return self._follower.standing_effects()
        return (STOP_FETCHING,)

    def _problem(self, code: str, detail: str, leader_epoch: int) -> ReportProblem:
        return ReportProblem(
            ReplicaProblem(
                topic_id=self._topic_id,
                partition=self._partition,
                code=code,
                detail=detail,
                leader_epoch=leader_epoch,
                high_watermark=self._watermark.offset,
            )
        )

    def on_vouched(self, *, now_ms: int) -> Effects:
        """What the effect `Vouch` asked for is durable: the leader may commit, the follower fetches on."""
        try:
            if self._leader is not None:
                return self._leader.begin(now_ms)
            return NO_EFFECTS if self._follower is None else self._follower.standing_effects()
        except LogError as error:
            return self._go_offline(str(error))

    def on_broker_changed(self, broker_id: int, *, now_ms: int) -> Effects:
        """The endpoint of one of its brokers changed in the live table: a new incarnation, or (in)active."""
        return NO_EFFECTS if self._leader is None else self._leader.on_broker_changed(broker_id, now_ms)

    def on_options(self, options: ReplicaOptions) -> None:
        self._options = options
        if self._leader is not None:
            self._leader.options = options
        if self._follower is not None:
            self._follower.options = options

    def on_storage_error(self, detail: str, *, now_ms: int) -> Effects:
        """The log directory failed outside a call of ours (fsync, a cold read): go offline."""
        return self._go_offline(detail)

    def on_rotten(self) -> Effects:
        """The log has learnt that bytes of it are rotten (5.7): the controller is told, and a replica without
        a seat mends at once."""
        if self._is_offline:
            return NO_EFFECTS
        return (self._rot_problem(), *self._standing_effects())

    def on_mended(self) -> Effects:
        """Something that was rotten is whole again, or gone with what was deleted: if that was all, the
        replica goes on fetching from where it was."""
        if self._is_offline or self._log.rotten:
            return NO_EFFECTS if self._is_offline else self._standing_effects()
        return (self._problem("mended", "nothing of it is rotten any more", -1), *self._standing_effects())

    def on_deleted(self, *, now_ms: int) -> Effects:
        """The topic is being deleted, or this replica is going away: fail all waiters, stop fetching (L1)."""
        return self._leave()

    def on_tick(self, now_ms: int) -> Effects:
        """Timeouts, lapse of the lease, lagging followers, retries. Cheap when nothing is due. Call every
        ~100 ms for replicas with `has_waiters`, every ~500 ms for all others."""
        try:
            if self._leader is not None:
                return self._leader.on_tick(now_ms)
            return NO_EFFECTS if self._follower is None else self._follower.on_tick(now_ms)
        except LogError as error:
            return self._go_offline(str(error))

    def next_deadline_ms(self) -> int | None:
        """When `on_tick` next has something to do, if nothing else happens."""
        if self._leader is not None:
            return self._leader.next_deadline_ms()
        return None if self._follower is None else self._follower.next_deadline_ms

    # Leader.

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
    ) -> tuple[AppendResult, Effects]:
        """Append one batch that passed `check_produced_batch`; `batch` is its whole bytes, not kept.

        acks: -1 all, 1 leader, 0 none (the shell sends no answer, but closes the connection on an error).
        waiter: any object; comes back in CompleteProduce if the result `is_waiting`, at the latest at
        `expires_ms` (monotonic), with REQUEST_TIMED_OUT or NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        Errors before anything was written: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, THROTTLING_QUOTA_EXCEEDED (too many waiters).
        KAFKA_STORAGE_ERROR says nothing about what was written.
        """
        leader = self._leader
        if leader is None:
            return AppendResult(self._no_leader_error), NO_EFFECTS
        try:
            return leader.append(
                header,
                batch,
                acks=acks,
                waiter=waiter,
                expires_ms=expires_ms,
                now_ms=now_ms,
                wall_ms=wall_ms,
            )
        except LogError as error:
            return AppendResult(ErrorCode.KAFKA_STORAGE_ERROR), self._go_offline(str(error))

    def describe_producers(self, now_ms: int) -> ProducersResult:
        """The producers that this partition remembers, with the last sequence of each. A leader that may
        serve answers, and nobody else: what another replica lacks, its reader would write again (6.9)."""
        if self._leader is None:
            return ProducersResult(self._no_leader_error)
        return self._leader.describe_producers(now_ms)

    def on_replica_fetch(
        self,
        *,
        replica_id: int,
        broker_epoch: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        max_bytes: int,
        now_ms: int,
        at_least_one: bool = True,
        contact: Contact | None = None,
        mark: LogMark | None = None,
    ) -> tuple[FetchResult, Effects]:
        """A follower asks. `contact`: that of its fetch session. `mark`: what it holds, if it begins here.
        `at_least_one`: give the first batch even beyond max_bytes (only for the first partition with data of
        an answer)."""
        leader = self._leader
        if leader is None:
            return FetchResult(self._no_leader_error), NO_EFFECTS
        try:
            return leader.on_replica_fetch(
                replica_id=replica_id,
                broker_epoch=broker_epoch,
                leader_epoch=leader_epoch,
                fetch_offset=fetch_offset,
                last_fetched_epoch=last_fetched_epoch,
                max_bytes=max_bytes,
                now_ms=now_ms,
                at_least_one=at_least_one,
                contact=contact,
                mark=mark,
            )
        except RottenBytes:
            return FetchResult(ErrorCode.CORRUPT_MESSAGE), NO_EFFECTS
        except SuspectBytes as suspect:
            error_code, effects = self._on_suspect(suspect)
            return FetchResult(error_code), effects
        except LogError as error:
            return FetchResult(ErrorCode.KAFKA_STORAGE_ERROR), self._go_offline(str(error))

    def _on_suspect(self, suspect: SuspectBytes) -> tuple[ErrorCode, Effects]:
        """Damage below the high watermark is the scrub's, as if it had found it (5.7). Above, no other
        replica need have what stood there."""
        if suspect.bad_offset < self._watermark.offset:
            return ErrorCode.CORRUPT_MESSAGE, (CheckAtRest(suspect.first_offset),)
        self._log.condemn(str(suspect))
        return ErrorCode.KAFKA_STORAGE_ERROR, self._go_offline(str(suspect))

    def on_replica_gone(self, replica_id: int, contact: Contact) -> None:
        """The follower took the partition out of that session, or the session ended: it is no longer
        evidence that it follows."""
        if self._leader is not None:
            self._leader.on_replica_gone(replica_id, contact)

    def on_consumer_fetch(
        self,
        *,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        max_bytes: int,
        now_ms: int,
        at_least_one: bool = True,
        is_debugging: bool = False,
    ) -> tuple[FetchResult, Effects]:
        """A consumer asks; epochs -1 if not stated. Never reads at or beyond the high watermark (I18), which
        at a follower is its own (2.11). is_debugging: it has come to see what this very replica has on its
        disk, be it in sync or not. To others a follower answers only while it is in sync, and only if they
        state the leader epoch: who states none may not know that it is not talking to the leader."""
        leader, follower = self._leader, self._follower
        try:
            if leader is not None:
                result = leader.on_consumer_fetch(
                    leader_epoch=leader_epoch,
                    fetch_offset=fetch_offset,
                    last_fetched_epoch=last_fetched_epoch,
                    max_bytes=max_bytes,
                    now_ms=now_ms,
                    at_least_one=at_least_one,
                    is_debugging=is_debugging,
                )
            elif follower is not None:
                result = follower.on_consumer_fetch(
                    leader_epoch=leader_epoch,
                    fetch_offset=fetch_offset,
                    last_fetched_epoch=last_fetched_epoch,
                    max_bytes=max_bytes,
                    now_ms=now_ms,
                    at_least_one=at_least_one,
                    is_debugging=is_debugging,
                )
            else:
                return FetchResult(self._no_leader_error), NO_EFFECTS
        except RottenBytes:
            return FetchResult(ErrorCode.CORRUPT_MESSAGE), NO_EFFECTS
        except SuspectBytes as suspect:
            error_code, effects = self._on_suspect(suspect)
            return FetchResult(error_code), effects
        except LogError as error:
            return FetchResult(ErrorCode.KAFKA_STORAGE_ERROR), self._go_offline(str(error))
        return result, NO_EFFECTS

    def offset_for_leader_epoch(
        self, *, current_leader_epoch: int, leader_epoch: int, now_ms: int
    ) -> EpochEndResult:
        """Where `leader_epoch` ends in this leader's log (KIP-101); current_leader_epoch -1: not stated."""
        if self._leader is None:
            return EpochEndResult(self._no_leader_error)
        return self._leader.offset_for_leader_epoch(
            current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch, now_ms=now_ms
        )

    def list_offset(
        self, timestamp_ms: int, *, leader_epoch: int, now_ms: int
    ) -> OffsetResult | TimestampLookup:
        """One of the special timestamps, or a timestamp >= 0; what has to be looked up in the log comes back
        as a TimestampLookup. No "latest" before this leader has committed past the start of its epoch:
        OFFSET_NOT_AVAILABLE (I19). Unknown special timestamps: UNSUPPORTED_VERSION."""
        if self._leader is None:
            return OffsetResult(self._no_leader_error)
        return self._leader.list_offset(timestamp_ms, leader_epoch=leader_epoch, now_ms=now_ms)

    def on_looked_up(
        self, lookup: TimestampLookup, found: TimestampHit | LogError | None, *, now_ms: int
    ) -> tuple[OffsetResult | TimestampLookup, Effects]:
        """What the log answered, perhaps some time ago. A lookup again if the log has changed under it."""
        if self._leader is None:
            return OffsetResult(self._no_leader_error), NO_EFFECTS
        if isinstance(found, RottenBytes):
            return OffsetResult(ErrorCode.CORRUPT_MESSAGE), NO_EFFECTS
        if isinstance(found, SuspectBytes):
            error_code, effects = self._on_suspect(found)
            return OffsetResult(error_code), effects
        if isinstance(found, LogError) and not isinstance(found, LogChanged):
            return OffsetResult(ErrorCode.KAFKA_STORAGE_ERROR), self._go_offline(str(found))
        return self._leader.on_looked_up(lookup, found, now_ms), NO_EFFECTS

    def delete_records(self, before_offset: int, *, now_ms: int) -> tuple[OffsetResult, Effects]:
        """DeleteRecords, and retention's way to move the log start: never past the high watermark, and only
        while this leader may serve (I26). -1: up to the high watermark. Result: the new log start."""
        if self._leader is None:
            return OffsetResult(self._no_leader_error), NO_EFFECTS
        try:
            return self._leader.delete_records(before_offset, now_ms=now_ms), NO_EFFECTS
        except LogError as error:
            return OffsetResult(ErrorCode.KAFKA_STORAGE_ERROR), self._go_offline(str(error))

    def due_proposal(self, now_ms: int) -> IsrProposal | None:
        """The proposal to put into the lag report that is being built: the unanswered one when its rest is
        over, or a new one. From here on it is a promise (I2)."""
        return None if self._leader is None else self._leader.due_proposal(now_ms)

    def on_proposal_result(self, result: IsrProposalResult, *, now_ms: int) -> Effects:
        """Whatever the answer says, only a newer state ends the promise (2.5), and it is applied by the usual
        rule: an acceptance brings one, and so does a refusal. Everything else is asked again."""
        effects = NO_EFFECTS
        if self._leader is not None and result.error is ControllerError.INELIGIBLE_REPLICA:
            self._leader.on_proposal_refused(result, now_ms)
        state = result.state
        if state is not None and (self._state is None or state.partition_epoch > self._state.partition_epoch):
            effects = self.on_partition_state(state, now_ms=now_ms)
        if self._leader is None:
            return effects
        return effects + self._leader.on_proposal_result(result, now_ms)

    def lag(self, now_ms: int) -> PartitionLag | None:
        """For the lag report; None unless leader."""
        return None if self._leader is None else self._leader.lag(now_ms)

    @property
    def _no_leader_error(self) -> ErrorCode:
        return ErrorCode.KAFKA_STORAGE_ERROR if self._is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # Follower.

    def next_fetch(self) -> FetchPosition | None:
        """What to ask the leader, or None: not a follower, holding before a truncation, or quarantined."""
        return None if self._follower is None else self._follower.next_fetch()

    def log_mark(self) -> LogMark | None:
        """What goes with a fetch that begins with a leader (3.10). None: this replica follows nobody, or its
        log can't be read, which the fetch itself will find out."""
        try:
            return None if self._follower is None else self._follower.mark()
        except LogError:
            return None

    def on_fetched(
        self, fetched: FetchedPartition, *, leader_epoch: int, fetch_offset: int, now_ms: int, wall_ms: int
    ) -> Effects:
        """The leader answered the request that carried `leader_epoch` and `fetch_offset`. Applied only if
        both are still current. Afterwards ask `next_fetch()` again."""
        if self._follower is None:
            return NO_EFFECTS
        try:
            return self._follower.on_fetched(
                fetched, leader_epoch=leader_epoch, fetch_offset=fetch_offset, now_ms=now_ms, wall_ms=wall_ms
            )
        except LogError as error:
            return self._go_offline(str(error))

    def on_written_aside(self, hold_id: int, *, error: str | None, now_ms: int) -> Effects:
        """The copy that WriteAside asked for is durable, or could not be made (then it is asked for again
        after a while, and an operator is told)."""
        if self._follower is None:
            return NO_EFFECTS
        try:
            return self._follower.on_written_aside(hold_id, error=error, now_ms=now_ms)
        except LogError as failure:
            return self._go_offline(str(failure))
