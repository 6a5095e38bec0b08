"""A replica while it leads: it appends, lets others read, and commits.

One object is one leadership, that is one leader epoch; everything it knows of followers dies with it (I3,
only this epoch's evidence counts). The log, the high watermark and the waiting producers are the replica's
and outlive it.

What must never happen here: an offset acknowledged under acks=all that is not below the high watermark (I4,
acknowledged means committed); a high watermark moved on anything but fetches of this leader epoch (I3, only
this epoch's evidence counts), with fewer committed in-sync members than the minimum, or in silence (no lease
and no in-sync set that stands in for it); follower state changed by a fetch that failed, diverged, was out of
range or came from a fenced incarnation (I8 (broker epochs fence incarnations), I17 (only successful reads
count)).
"""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from dataplane.core.compaction.deciding import due_round
from dataplane.core.compaction.rounds import Dirt, encode_round
from dataplane.core.effects import (
    DATA_APPENDED,
    HIGH_WATERMARK_MOVED,
    LOG_START_MOVED,
    NO_EFFECTS,
    PROPOSAL_READY,
    VOUCH,
    CheckAtRest,
    CompleteDeletion,
    CompleteProduce,
    Effect,
    Effects,
    Remark,
    RemarkKind,
    ReportProblem,
)
from dataplane.core.fence import Fence
from dataplane.core.fetch import ConsumerFetch, ReplicaFetch
from dataplane.core.fetch_session import Contact
from dataplane.core.guards import Guards
from dataplane.core.isr import FollowerProgress, InSyncSet
from dataplane.core.log_port import LogChanged, LogError, LogSlice, TimestampHit
from dataplane.core.newcomers import Newcomers
from dataplane.core.producer_state import OPEN_MAX, Duplicate
from dataplane.core.results import (
    ACKS_ALL,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    AppendResult,
    DeletionResult,
    EpochEndResult,
    FetchResult,
    OffsetResult,
    ProducersResult,
    TimestampLookup,
    TxnContext,
)
from dataplane.core.role import ReplicaParts, ReplicaRole, check_epoch_start, check_position
from dataplane.core.transactions import IsolationLevel, MarkerToWrite
from dataplane.core.watermarks import UNKNOWN_OFFSET, committable_offset
from springtide.contract.epochs import NO_LEADER_EPOCH, BrokerEpoch, LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposal, IsrProposalResult, PartitionLag, ProblemCode
from springtide.contract.partition_state import WRITER_BATCHES_MAX, PartitionState, Shard
from springtide.contract.transactions import OPEN_TOLD_MAX, OpenTransaction, OpenTransactions
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.fetch_response import EpochEnd
from springtide.wire.markers import encode_marker
from springtide.wire.record_batch import (
    ATTRIBUTE_TRANSACTIONAL,
    HEADER_BYTES,
    BatchHeader,
    decode_header,
    restamp_append_time,
    stamp_head,
)

FETCH_REPEATS = 3
"""A follower that asks so often again for what it was given may refuse it: the leader looks at its own
bytes."""

_APPENDED: Effects = (DATA_APPENDED,)
_HEAD_BYTES = 16

_NOT_LEADER = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_ENOUGH_REPLICAS = AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS)
_NO_ROOM = AppendResult(ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_MANY_WAITERS = AppendResult(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
_INVALID_TXN_STATE = AppendResult(ErrorCode.INVALID_TXN_STATE)

_MAY_FOLLOW = (ErrorCode.NONE, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
"""Verdicts on a batch before its turn: those that it follows may be parked, and be appended first."""


class Leader(ReplicaRole):
    """`epoch_start_offset`: the log end when this leader epoch began."""

    __slots__ = (
        "_began_ms",
        "_deletions",
        "_fence",
        "_guards",
        "_has_gone_back",
        "_lease",
        "_newcomers",
        "_opened_ms",
        "_purgatory",
        "in_sync",
        "leader_epoch",
    )

    name = "leader"
    is_assigned = True

    def __init__(
        self, replica: ReplicaParts, state: PartitionState, *, epoch_start_offset: int, now_ms: int
    ) -> None:
        super().__init__(replica)
        self.leader_epoch = state.leader_epoch
        #: A replica has shown that this log once was longer in this leader epoch (3.10, a host that goes
        #: back).
        self._has_gone_back = False
        #: Of a shard's log, once it was written to in this leader epoch.
        self._fence: Fence | None = None
        self._newcomers = Newcomers()
        self._guards = Guards()
        #: When this leader opened each transaction that it has opened and not ended; the others before that.
        self._opened_ms: dict[int, int] = {}
        self._began_ms = now_ms
        self._purgatory = replica.purgatory
        self._deletions = replica.deletions
        self._lease = replica.lease
        self.in_sync = InSyncSet(
            state,
            broker_id=replica.broker_id,
            brokers=replica.brokers,
            epoch_start_offset=epoch_start_offset,
            deleted_offset=replica.log.log_start_offset,
            proposal_ids=replica.proposal_ids,
            now_ms=now_ms,
        )

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Committed ISR plus promised additions, in assignment order."""
        return self.in_sync.maximal_isr

    def may_serve(self, now_ms: int) -> bool:
        """The lease is held; or it ran out in silence, and the in-sync set stands in for it. A broker that
        was *told* it is fenced has no stand-in."""
        lease = self._lease
        if self._has_gone_back:
            return False
        return lease.is_held(now_ms) or (
            not lease.is_revoked
            and self.in_sync.stands_in_for_the_lease(now_ms=now_ms, lease_ms=lease.lease_ms)
        )

    # Produce.

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
        in_sync, options = self.in_sync, self._replica.options
        if not self.may_serve(now_ms):
            return self._refuse(header, _NOT_LEADER, now_ms)
        shard = in_sync.state.shard
        is_transactional = header.attributes & ATTRIBUTE_TRANSACTIONAL
        if shard is not None:
            if is_transactional:
                return AppendResult(ErrorCode.INVALID_TXN_STATE), NO_EFFECTS
            settled = self._settle_writer(header, shard, acks=acks, waiter=waiter, expires_ms=expires_ms)
            if settled is not None:
                return settled
        if acks == ACKS_ALL:
            if in_sync.is_under_min:
                return self._refuse(header, _NOT_ENOUGH_REPLICAS, now_ms)
            if len(self._purgatory) >= options.waiters_max:
                return self._refuse(header, _TOO_MANY_WAITERS, now_ms)
        log = self._log
        if header.producer_id >= 0 and shard is None:
            verdict = log.producers.check(header)
            if isinstance(verdict, Duplicate):
                return self._answer_duplicate(verdict, acks=acks, waiter=waiter, expires_ms=expires_ms)
            if is_transactional and verdict in _MAY_FOLLOW:
                unsettled = self._settle_transaction(header, txn, now_ms)
                if unsettled is not None:
                    return unsettled
            if verdict is ErrorCode.UNKNOWN_PRODUCER_ID and log.producers.is_whole:
                verdict = self._newcomers.judge(header, now_ms=now_ms)
            if verdict is not ErrorCode.NONE:
                return AppendResult(verdict, log_start_offset=log.log_start_offset), NO_EFFECTS
        if not log.room.admits(len(batch), is_internal=shard is not None):
            return self._refuse(header, _NO_ROOM, now_ms)
        base_offset = log.log_end_offset
        append_time_ms = -1
        if options.is_append_time:
            append_time_ms = wall_ms
            head = restamp_append_time(
                batch,
                header,
                base_offset=base_offset,
                leader_epoch=self.leader_epoch,
                append_time_ms=wall_ms,
            )
            stamped = decode_header(head)
            rest = batch[HEADER_BYTES:]
        else:
            head = stamp_head(base_offset=base_offset, header=header, leader_epoch=self.leader_epoch)
            stamped = BatchHeader(base_offset, header[1], self.leader_epoch, *header[3:])
            rest = batch[_HEAD_BYTES:]
        try:
            log.append((stamped,), (head, rest), now_ms=wall_ms, are_read=True)
        except LogError as error:
            return AppendResult(ErrorCode.KAFKA_STORAGE_ERROR), self._replica.go_offline(str(error))
        if self._fence is not None:
            self._fence.on_appended(stamped)
        if log.producers.transactions.first_offset_of(header.producer_id) == base_offset:
            self._opened_ms[header.producer_id] = now_ms
            self._guards.spend(header.producer_id, header.producer_epoch)
        effects = self._on_appended(base_offset, now_ms)
        is_waiting = acks == ACKS_ALL and self._watermark.offset < log.log_end_offset
        if is_waiting:
            self._purgatory.add(
                waiter,
                required_offset=log.log_end_offset,
                leader_epoch=self.leader_epoch,
                expires_ms=expires_ms,
            )
        return (
            AppendResult(ErrorCode.NONE, base_offset, append_time_ms, log.log_start_offset, is_waiting),
            effects,
        )

    def _refuse(self, header: BatchHeader, result: AppendResult, now_ms: int) -> tuple[AppendResult, Effects]:
        if header.producer_id >= 0:
            self._newcomers.note_refused(header, now_ms=now_ms)
        return result, NO_EFFECTS

    def _settle_transaction(
        self, header: BatchHeader, txn: TxnContext | None, now_ms: int
    ) -> tuple[AppendResult, Effects] | None:
        """Return the answer to a transactional batch that must not be appended now; None: append it.

        The first batch of a transaction needs its coordinator's word (KIP-890). Under version 2 the epoch
        says which transaction a batch is of, so one whose guard is spent asks again. Under version 1 it may
        be of the transaction that has ended meanwhile."""
        if txn is None:
            return self._refuse(header, _INVALID_TXN_STATE, now_ms)
        producer_id, producer_epoch = header.producer_id, header.producer_epoch
        producers, guard = self._log.producers, txn.verified
        is_open = producers.transactions.is_open(producer_id)
        if is_open and producers.epoch_of(producer_id) == producer_epoch:
            return None
        if guard is None or not self._guards.holds(
            guard, producer_id=producer_id, producer_epoch=producer_epoch
        ):
            if guard is not None and guard.is_spent and not txn.is_v2:
                return self._refuse(header, _INVALID_TXN_STATE, now_ms)
            asked = self._guards.ask(producer_id, producer_epoch, now_ms=now_ms)
            if asked is None:
                return self._refuse(header, _NOT_ENOUGH_REPLICAS, now_ms)
            return AppendResult(ErrorCode.NONE, must_verify=asked), NO_EFFECTS
        if is_open:  # its coordinator has ended it, and began the next one without a marker here
            return self._refuse(header, _INVALID_TXN_STATE, now_ms)
        if len(producers.transactions.open) >= OPEN_MAX:
            return self._refuse(header, _NOT_ENOUGH_REPLICAS, now_ms)
        return None

    def write_marker(
        self, marker: MarkerToWrite, *, waiter: object, expires_ms: int, now_ms: int, wall_ms: int
    ) -> tuple[AppendResult, Effects]:
        in_sync, log = self.in_sync, self._log
        if not self.may_serve(now_ms) or marker.leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch):
            return _NOT_LEADER, NO_EFFECTS
        if in_sync.state.shard is not None:
            return AppendResult(ErrorCode.INVALID_TOPIC_EXCEPTION), NO_EFFECTS
        producer_id, producer_epoch = marker.producer_id, marker.producer_epoch
        if producer_id < 0 or producer_epoch < 0:
            return AppendResult(ErrorCode.INVALID_PRODUCER_EPOCH), NO_EFFECTS
        if in_sync.is_under_min:
            return _NOT_ENOUGH_REPLICAS, NO_EFFECTS
        if len(self._purgatory) >= self._replica.options.waiters_max:
            return _TOO_MANY_WAITERS, NO_EFFECTS
        verdict = log.producers.check_marker(marker)
        if isinstance(verdict, ErrorCode) and verdict is not ErrorCode.NONE:
            return AppendResult(verdict), NO_EFFECTS
        if not log.producers.is_late(marker):
            self._guards.spend(producer_id, producer_epoch)
            self._opened_ms.pop(producer_id, None)
        if not isinstance(verdict, ErrorCode):
            log.producers.note_attempt(marker)
            return self._await_marker(
                AppendResult(ErrorCode.NONE), verdict, waiter=waiter, expires_ms=expires_ms
            )
        base_offset = log.log_end_offset
        batch = encode_marker(
            marker.outcome,
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_offset=base_offset,
            leader_epoch=self.leader_epoch,
            timestamp_ms=wall_ms,
        )
        if not log.room.admits(len(batch), is_internal=True):
            return _NO_ROOM, NO_EFFECTS
        log.producers.transactions.on_high_watermark(self._watermark.offset)
        try:
            log.append((decode_header(batch),), (batch,), now_ms=wall_ms, are_read=True)
        except LogError as error:
            return AppendResult(ErrorCode.KAFKA_STORAGE_ERROR), self._replica.go_offline(str(error))
        log.producers.note_attempt(marker)
        effects = self._on_appended(base_offset, now_ms)
        result = AppendResult(ErrorCode.NONE, base_offset, log_start_offset=log.log_start_offset)
        result, _ = self._await_marker(result, base_offset + 1, waiter=waiter, expires_ms=expires_ms)
        return result, effects

    def _await_marker(
        self, result: AppendResult, required_offset: int, *, waiter: object, expires_ms: int
    ) -> tuple[AppendResult, Effects]:
        """Let the answer wait until all below an offset is committed, unless it is."""
        if self._watermark.offset >= required_offset:
            return result, NO_EFFECTS
        self._purgatory.add(
            waiter,
            required_offset=required_offset,
            leader_epoch=self._log.epochs.epoch_at(required_offset - 1),
            expires_ms=expires_ms,
        )
        return msgspec.structs.replace(result, is_waiting=True), NO_EFFECTS

    def open_transactions(self, now_ms: int) -> OpenTransactions | None:
        producers = self._log.producers
        transactions = producers.transactions
        if not transactions.open:
            return None
        return OpenTransactions(
            self._replica.last_stable_offset,
            len(transactions.open),
            tuple(
                OpenTransaction(
                    producer_id,
                    producers.epoch_of(producer_id),
                    first_offset,
                    now_ms - self._opened_ms.get(producer_id, self._began_ms),
                )
                for producer_id, first_offset in transactions.oldest(OPEN_TOLD_MAX)
            ),
        )

    def on_unread(self) -> None:
        """A produced batch was refused before its header was believed: it may have been any producer's."""
        self._newcomers.clear()

    def _on_appended(self, base_offset: int, now_ms: int) -> Effects:
        """The log was as long as `base_offset`, and has one batch more."""
        in_sync = self.in_sync
        for follower in in_sync.waited_for:
            if follower.log_end_offset == base_offset:
                follower.on_leader_append()
        for follower in in_sync.outsiders:
            if follower.log_end_offset == base_offset:
                follower.on_leader_append()
        effects = _APPENDED
        if not in_sync.waited_for:  # a follower has yet to fetch it, else
            effects += self.commit(now_ms)
        if self._log.must_vouch:
            effects += (VOUCH,)
        return effects

    def _settle_writer(
        self, header: BatchHeader, shard: Shard, *, acks: int, waiter: object, expires_ms: int
    ) -> tuple[AppendResult, Effects] | None:
        """Return the answer to a batch that a shard's log refuses, or has already; None: append it. Asked
        before the minimum, because "nothing was written" must not be said of what is stored."""
        if self._fence is None:
            try:
                self._fence = Fence(self._log.last_data_batches(WRITER_BATCHES_MAX))
            except LogError as error:
                error_code, effects = self._on_read_error(error)
                return AppendResult(error_code), effects
        verdict = self._fence.judge(header, named=shard.writer)
        if isinstance(verdict, Duplicate):
            if len(self._purgatory) >= self._replica.options.waiters_max:
                return _TOO_MANY_WAITERS, NO_EFFECTS
            return self._answer_duplicate(verdict, acks=acks, waiter=waiter, expires_ms=expires_ms)
        if verdict is not ErrorCode.NONE:
            return AppendResult(verdict, log_start_offset=self._log.log_start_offset), NO_EFFECTS
        return None

    def _answer_duplicate(
        self, duplicate: Duplicate, *, acks: int, waiter: object, expires_ms: int
    ) -> tuple[AppendResult, Effects]:
        """Stored is not committed: a retry waits exactly like the original (6.3, duplicates wait). As
        Kafka's, the answer has the stored batch's time, for both kinds of timestamps: so a client that names
        its own producer id can tell it from an append (6.9, named producer ids)."""
        required_offset = duplicate.last_offset + 1
        is_waiting = acks == ACKS_ALL and self._watermark.offset < required_offset
        if is_waiting:
            self._purgatory.add(
                waiter,
                required_offset=required_offset,
                leader_epoch=self._log.epochs.epoch_at(duplicate.last_offset),
                expires_ms=expires_ms,
            )
        return (
            AppendResult(
                ErrorCode.NONE,
                duplicate.base_offset,
                duplicate.timestamp_ms,
                self._log.log_start_offset,
                is_waiting,
            ),
            NO_EFFECTS,
        )

    def decide_round(self, dirt: Dirt, *, agreed_ms: int, now_ms: int, wall_ms: int) -> Effects:
        """Append the next round of compaction if one is due, but not while less than the minimum is in sync,
        since it could not be committed. A silent follower keeps no tombstone from removal: when it is back it
        begins anew if it has to. dirt: measured now. agreed_ms: Unix time that does not follow a leap of the
        machine's clock."""
        in_sync, log, options = self.in_sync, self._log, self._replica.options
        if options.compaction is None or in_sync.is_under_min or not self.may_serve(now_ms):
            return NO_EFFECTS
        round_ = due_round(
            log.rounds,
            dirt,
            options.compaction,
            last_stable_offset=self._replica.last_stable_offset,
            agreed_ms=agreed_ms,
            log_ends=[
                follower.log_end_offset
                for follower in (*in_sync.waited_for, *in_sync.outsiders)
                if follower.log_end_offset != UNKNOWN_OFFSET
                and now_ms - follower.last_heard_ms <= options.lag_ms_max
            ],
            producers_floor=log.producers.last_batches_from,
        )
        if round_ is None:
            return NO_EFFECTS
        base_offset = log.log_end_offset
        batch = encode_round(round_, leader_epoch=self.leader_epoch, base_offset=base_offset)
        try:
            log.append((decode_header(batch),), (batch,), now_ms=wall_ms, are_read=True)
        except LogError as error:
            return self._replica.go_offline(str(error))
        return self._on_appended(base_offset, now_ms)

    def describe_producers(self, now_ms: int, *, is_copy_enough: bool = False) -> ProducersResult:
        """Return what `append` judges the next batch by: the states at the log's end, committed or not."""
        if not self.may_serve(now_ms):
            return ProducersResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ProducersResult(ErrorCode.NONE, tuple(self._log.producers.active_producers()))

    # Commit.

    def commit(self, now_ms: int) -> Effects:
        """Move the high watermark as far as the evidence goes, and complete waiting producers."""
        watermark = self._watermark
        in_sync = self.in_sync
        end_offset = self._log.log_end_offset
        committable = committable_offset(self._log.vouched_end_offset, in_sync.waited_for)
        if committable <= watermark.offset or in_sync.is_under_min or not self.may_serve(now_ms):
            return NO_EFFECTS
        for follower in in_sync.outsiders:
            if follower.log_end_offset < committable and in_sync.is_worth_waiting_for(
                follower,
                leader_end_offset=end_offset,
                now_ms=now_ms,
                lag_ms_max=self._replica.options.lag_ms_max,
            ):
                committable = follower.log_end_offset
        if not watermark.raise_to(committable):
            return NO_EFFECTS
        committed, overwritten = self._purgatory.complete_to(
            committable, leader_epoch=self.leader_epoch, epochs=self._log.epochs
        )
        if not committed and not overwritten:
            return (HIGH_WATERMARK_MOVED,)
        effects: list[Effect] = [HIGH_WATERMARK_MOVED]
        if committed:
            effects.append(CompleteProduce(committed, ErrorCode.NONE))
        if overwritten:
            effects.append(CompleteProduce(overwritten, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return tuple(effects)

    # Fetch.

    def on_replica_fetch(self, fetch: ReplicaFetch, *, now_ms: int) -> tuple[FetchResult, Effects]:
        replica_id, broker_epoch, mark = fetch.replica_id, fetch.broker_epoch, fetch.mark
        position, max_bytes = fetch.position, fetch.max_bytes
        at_least_one = fetch.at_least_one and position.max_bytes > 0  # 0: it has no room for records
        leader_epoch = position.leader_epoch
        fetch_offset, last_fetched_epoch = position.fetch_offset, position.last_fetched_epoch
        if leader_epoch != self.leader_epoch:
            return FetchResult(self._epoch_error(leader_epoch)), NO_EFFECTS
        in_sync = self.in_sync
        follower = in_sync.follower(replica_id)
        if follower is None:
            # Assigned by a state that has not arrived here yet, or no longer: it retries (KAFKA-13837).
            return FetchResult(ErrorCode.UNKNOWN_LEADER_EPOCH), NO_EFFECTS
        if broker_epoch < in_sync.known_broker_epoch(follower) or broker_epoch < 0:
            return FetchResult(ErrorCode.STALE_BROKER_EPOCH), NO_EFFECTS
        log = self._log
        end_offset = log.log_end_offset
        if self._has_gone_back or (last_fetched_epoch == leader_epoch and fetch_offset > end_offset):
            return FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), self._give_up(replica_id, fetch_offset)
        refusal = check_position(log, fetch_offset, last_fetched_epoch) or check_epoch_start(
            log, fetch_offset, last_fetched_epoch
        )
        if refusal is not None:
            return refusal, NO_EFFECTS
        if mark is not None:
            if mark.partition_epoch > in_sync.state.partition_epoch:
                # What it knows of the in-sync set has not arrived here yet; or was known here, and was lost
                # with everything else (3.10, a host that goes back). Until it is known nothing counts.
                return FetchResult(ErrorCode.UNKNOWN_LEADER_EPOCH), NO_EFFECTS
            try:
                parted = self._parts_from(mark, fetch_offset)
            except LogError as error:
                error_code, effects = self._on_read_error(error)
                return FetchResult(error_code), effects
            # A log start that this leader told and does not have shows the same, where what was written
            # since is deleted and can't be compared.
            has_forgotten = mark.log_start_offset > log.log_start_offset
            if has_forgotten or (parted is not None and parted.leader_epoch == leader_epoch):
                give_up = self._give_up(replica_id, fetch_offset)
                return FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), give_up
            if parted is not None:
                return FetchResult(ErrorCode.NONE, diverging=parted), NO_EFFECTS
        if position.wants_producers:
            return self._tell_producers(fetch_offset, max_bytes, at_least_one=at_least_one), NO_EFFECTS
        went_back = fetch_offset < follower.log_end_offset
        lost = self._lost_by(follower, fetch_offset, broker_epoch) if went_back else NO_EFFECTS
        try:
            records = log.read(
                fetch_offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one=at_least_one
            )
        except LogError as error:
            error_code, effects = self._on_read_error(error)
            return FetchResult(error_code), effects
        # Only now, after a successful read (I17, only successful reads count), and only what the request
        # itself says (8.4, evidence from receipt).
        follower.on_fetch(fetch, leader_end_offset=end_offset, now_ms=now_ms)
        effects = self.commit(now_ms) if self._watermark.offset < end_offset else NO_EFFECTS
        if len(self._deletions):
            effects = (*effects, *self._complete_deletions())
        if lost:
            effects = (*effects, *lost)
        if in_sync.outsiders and self._may_ask_for(follower, now_ms):
            effects = (*effects, PROPOSAL_READY)
        if follower.repeats == FETCH_REPEATS:
            effects = (*effects, CheckAtRest(fetch_offset))
        return (
            FetchResult(
                ErrorCode.NONE,
                self._watermark.offset,
                log.log_start_offset,
                records,
                None,
                not at_least_one and not records.size_bytes and fetch_offset < end_offset,
                log.rounds.compacted,
            ),
            effects,
        )

    def _tell_producers(self, fetch_offset: int, max_bytes: int, *, at_least_one: bool) -> FetchResult:
        told = self._log.producers.below(fetch_offset).encode()
        found_no_room = not at_least_one and len(told) > max_bytes
        return FetchResult(
            ErrorCode.NONE,
            self._watermark.offset,
            self._log.log_start_offset,
            LogSlice((), 0, fetch_offset),
            found_no_room=found_no_room,
            producers=b"" if found_no_room else told,
        )

    def _parts_from(self, mark: LogMark, fetch_offset: int) -> EpochEnd | None:
        """Return from where on this log holds other batches than the follower's log, before its fetch offset
        and under the same leader epochs: a leader went back, and wrote again (3.10, a host that goes back).
        None if nothing shows that. What is deleted here, or may be compacted, is not compared."""
        log = self._log
        if not mark.batches:
            return None
        compared_from = max(log.log_start_offset, log.rounds.compacted_to)
        headers = log.last_batches(fetch_offset, first_offset=max(mark.batches[0][0], compared_from))
        if headers is None:
            return None
        ours = [header for header in headers if header.base_offset >= log.rounds.compacted_to]
        if ours:
            compared_from = ours[0].base_offset
        theirs = [batch for batch in mark.batches if batch[0] >= compared_from]
        if not ours and not theirs:
            return None
        parted = compared_from if ours else theirs[0][0]
        for header, batch in zip_longest(ours, theirs):
            if header is None:
                return EpochEnd(log.epochs.epoch_at(parted), parted)
            if batch != (header.base_offset, header.crc):
                return EpochEnd(header.leader_epoch, parted)
            parted = header.next_offset
        return None

    def _give_up(self, replica_id: int, fetch_offset: int) -> Effects:
        """Answer no request in this leader epoch any more, because a replica has more of it than this log,
        other records, or a log start that this log does not have. Only this leader writes under its epoch, so
        this process was put back to an earlier moment. The controller takes its seat away."""
        if self._has_gone_back:
            return NO_EFFECTS
        self._has_gone_back = True
        waiters = self._purgatory.take_all()
        problem = self._went_back(
            f"broker {replica_id} has it up to {fetch_offset} from this leader, in this leader epoch: more "
            "than this log, other records, or a later log start",
            next_offset=fetch_offset,
        )
        return (
            (CompleteProduce(waiters, ErrorCode.NOT_LEADER_OR_FOLLOWER), problem) if waiters else (problem,)
        )

    def _lost_by(self, follower: FollowerProgress, fetch_offset: int, broker_epoch: BrokerEpoch) -> Effects:
        """A follower cuts nothing after its log was found to be a prefix of this one: if one process of it
        asks for less than it has had in this leader epoch, it was put back."""
        state = self.in_sync.state
        has_seat = follower in self.in_sync.waited_for or follower.broker_id in state.elr
        if broker_epoch != follower.broker_epoch or not has_seat:
            return NO_EFFECTS
        return (
            self._went_back(
                f"fetched from {follower.log_end_offset}, and now from {fetch_offset}",
                next_offset=follower.log_end_offset,
                broker_id=follower.broker_id,
            ),
        )

    def _went_back(self, detail: str, *, next_offset: int, broker_id: int = -1) -> ReportProblem:
        return self._replica.problem(
            ProblemCode.WENT_BACK,
            detail,
            leader_epoch=self.leader_epoch,
            first_offset=self._log.log_end_offset,
            next_offset=next_offset,
            broker_id=broker_id,
        )

    def _may_ask_for(self, follower: FollowerProgress, now_ms: int) -> bool:
        in_sync = self.in_sync
        return (
            in_sync.pending is None
            and follower in in_sync.outsiders
            and in_sync.is_worth_proposing(
                follower,
                now_ms=now_ms,
                leader_end_offset=self._log.log_end_offset,
                high_watermark=self._watermark.offset,
                lag_ms_max=self._replica.options.lag_ms_max,
            )
            and self._lease.is_held(now_ms)
        )

    def on_replica_gone(self, replica_id: int, contact: Contact) -> None:
        """The follower took the partition out of that session, or the session ended: it is no longer
        evidence that it follows."""
        follower = self.in_sync.follower(replica_id)
        if follower is not None and follower.contact is contact:
            follower.contact = None

    def on_consumer_fetch(self, fetch: ConsumerFetch, *, now_ms: int) -> tuple[FetchResult, Effects]:
        position = fetch.position
        leader_epoch = position.leader_epoch
        if leader_epoch not in (-1, self.leader_epoch):
            return FetchResult(self._epoch_error(leader_epoch)), NO_EFFECTS
        if not self.may_serve(now_ms):
            return FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), NO_EFFECTS
        refusal = check_position(self._log, position.fetch_offset, position.last_fetched_epoch)
        if refusal is not None:
            return refusal, NO_EFFECTS
        return self._read_committed(fetch, self._watermark.offset)

    def _epoch_error(self, leader_epoch: LeaderEpoch) -> ErrorCode:
        if leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    # Offsets.

    def offset_for_leader_epoch(
        self, *, current_leader_epoch: int, leader_epoch: LeaderEpoch, now_ms: int
    ) -> EpochEndResult:
        if current_leader_epoch not in (-1, self.leader_epoch):
            return EpochEndResult(self._epoch_error(LeaderEpoch(current_leader_epoch)))
        if not self.may_serve(now_ms):
            return EpochEndResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        end = self._log.epochs.end_offset_for(leader_epoch, log_end_offset=self._log.log_end_offset)
        return EpochEndResult(ErrorCode.NONE, LeaderEpoch(end.leader_epoch), end.end_offset)

    def list_offset(
        self,
        timestamp_ms: int,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> OffsetResult | TimestampLookup:
        if leader_epoch not in (-1, self.leader_epoch):
            return OffsetResult(self._epoch_error(leader_epoch))
        if not self.may_serve(now_ms):
            return OffsetResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self._log
        end_offset = self._readable_end(isolation)
        if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = log.log_start_offset
            return OffsetResult(ErrorCode.NONE, start, leader_epoch=log.epochs.epoch_at(start))
        if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return OffsetResult(ErrorCode.NONE)  # there is no other tier (KIP-1005, KIP-1023)
        if timestamp_ms >= 0:
            return TimestampLookup(timestamp_ms, self.leader_epoch, end_offset, isolation)
        if timestamp_ms not in (LATEST_TIMESTAMP, MAX_TIMESTAMP):
            return OffsetResult(ErrorCode.UNSUPPORTED_VERSION)
        if self._knows_less_than_is_committed:
            return OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE)
        if timestamp_ms == MAX_TIMESTAMP:
            return TimestampLookup(None, self.leader_epoch, end_offset, isolation)
        return OffsetResult(ErrorCode.NONE, end_offset, leader_epoch=log.epochs.epoch_at(end_offset))

    def _readable_end(self, isolation: IsolationLevel) -> int:
        if isolation is IsolationLevel.READ_COMMITTED:
            return self._replica.last_stable_offset
        return self._watermark.offset

    def on_looked_up(
        self, lookup: TimestampLookup, found: TimestampHit | LogError | None, *, now_ms: int
    ) -> tuple[OffsetResult | TimestampLookup, Effects]:
        if isinstance(found, LogError) and not isinstance(found, LogChanged):
            error_code, effects = self._on_read_error(found)
            return OffsetResult(error_code), effects
        return self._judged(lookup, found, now_ms), NO_EFFECTS

    def _judged(
        self, lookup: TimestampLookup, hit: TimestampHit | LogChanged | None, now_ms: int
    ) -> OffsetResult | TimestampLookup:
        """Judge what was found. Time may have passed, so the leadership and the log start are checked
        again."""
        if lookup.leader_epoch != self.leader_epoch or not self.may_serve(now_ms):
            return OffsetResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if hit is None:
            if self._knows_less_than_is_committed:
                return OffsetResult(ErrorCode.OFFSET_NOT_AVAILABLE)
            return OffsetResult(ErrorCode.NONE)
        if isinstance(hit, LogChanged) or hit.offset < self._log.log_start_offset:  # deleted since
            end_offset = self._readable_end(lookup.isolation)
            return TimestampLookup(lookup.timestamp_ms, self.leader_epoch, end_offset, lookup.isolation)
        return OffsetResult(ErrorCode.NONE, hit.offset, hit.timestamp_ms, hit.leader_epoch)

    @property
    def _knows_less_than_is_committed(self) -> bool:
        """More is committed than this leader can prove yet: its answer would go backwards (KIP-207; I19, no
        latest offset before it is known)."""
        return self._watermark.offset < self.in_sync.epoch_start_offset

    # Deletion.

    def delete_records(
        self, before_offset: int, *, waiter: object, expires_ms: int, now_ms: int
    ) -> tuple[DeletionResult, Effects]:
        if not self.may_serve(now_ms):
            return DeletionResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), NO_EFFECTS
        is_whole_log = self.in_sync.state.shard is not None  # the state of a shard (13, coordinator topics)
        if is_whole_log or self._replica.options.is_compact_only:
            return DeletionResult(ErrorCode.POLICY_VIOLATION), NO_EFFECTS
        high_watermark = self._watermark.offset
        offset = high_watermark if before_offset == -1 else before_offset
        if self._knows_less_than_is_committed and (before_offset == -1 or offset > high_watermark):
            return DeletionResult(ErrorCode.LEADER_NOT_AVAILABLE), NO_EFFECTS
        if not 0 <= offset <= high_watermark:
            return DeletionResult(ErrorCode.OFFSET_OUT_OF_RANGE), NO_EFFECTS
        replica, log = self._replica, self._log
        if len(self._deletions) >= replica.options.waiters_max:
            return DeletionResult(ErrorCode.THROTTLING_QUOTA_EXCEEDED), NO_EFFECTS
        if offset > log.log_start_offset:
            try:
                log.advance_log_start(offset)
            except LogError as error:
                return DeletionResult(ErrorCode.KAFKA_STORAGE_ERROR), replica.go_offline(str(error))
        self.in_sync.deleted_offset = max(self.in_sync.deleted_offset, offset)
        effects: Effects = (LOG_START_MOVED,) if self._log_start.must_store() else NO_EFFECTS
        low_watermark = self.low_watermark
        if low_watermark >= offset:
            return DeletionResult(ErrorCode.NONE, low_watermark), effects
        self._deletions.add(
            waiter, required_offset=offset, leader_epoch=self.leader_epoch, expires_ms=expires_ms
        )
        return DeletionResult(ErrorCode.NONE, is_waiting=True), effects

    @property
    def low_watermark(self) -> int:
        """Return the lowest log start that a replica which may be elected has stored."""
        own_offset, others = self._log_start.offset, self.in_sync.stored_log_start_offset
        return own_offset if others is None else min(own_offset, others)

    def _complete_deletions(self) -> Effects:
        """Answer the deletions that every replica which may be elected has stored, also those of earlier
        leaderships of this replica: it has followed no other since."""
        low_watermark = self.low_watermark
        stored, stored_earlier = self._deletions.complete_to(
            low_watermark, leader_epoch=self.leader_epoch, epochs=self._log.epochs
        )
        waiters = stored + stored_earlier
        return (
            (CompleteDeletion(waiters, DeletionResult(ErrorCode.NONE, low_watermark)),)
            if waiters
            else NO_EFFECTS
        )

    def _look_at_deletions(self, now_ms: int) -> Effects:
        if not self.may_serve(now_ms):
            lapsed = DeletionResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return (CompleteDeletion(self._deletions.take_all(), lapsed),)
        effects = self._complete_deletions()
        expired = self._deletions.expire(now_ms)
        if expired:
            timed_out = DeletionResult(ErrorCode.REQUEST_TIMED_OUT)
            effects = (*effects, CompleteDeletion(expired, timed_out))
        return effects

    def on_log_start_stored(self, offset: int, *, now_ms: int) -> Effects:
        super().on_log_start_stored(offset, now_ms=now_ms)
        return self._complete_deletions()

    # Control.

    def on_vouched(self, *, now_ms: int) -> Effects:
        """Commit what the log vouches for now. Also called once when the leadership begins: a sole member
        commits what it holds."""
        vouch: Effects = (VOUCH,) if self._log.must_vouch else NO_EFFECTS
        return self.commit(now_ms) + self._ask(now_ms) + vouch

    def on_state(self, state: PartitionState, now_ms: int) -> Effects:
        """A newer state of this leader epoch: a smaller maximal ISR or minimum may commit (KAFKA-13091)."""
        self.in_sync.on_state(state, now_ms=now_ms)
        return self.commit(now_ms) + self._ask(now_ms)

    def on_broker_changed(self, broker_id: int, *, now_ms: int) -> Effects:
        """The endpoint of one of its brokers changed in the live table: a new incarnation, or (in)active."""
        self.in_sync.on_broker_changed(broker_id)
        return self.commit(now_ms) + self._ask(now_ms)

    def due_proposal(self, now_ms: int) -> IsrProposal | None:
        """Return the proposal to put into the lag report that is being built: the unanswered one when its
        rest is over, or a new one. From here on it is a promise (I2, the leader is never laxer)."""
        members = self._due_isr(now_ms)
        return None if members is None else self.in_sync.propose(members, now_ms=now_ms)

    def _due_isr(self, now_ms: int) -> tuple[int, ...] | None:
        """Return the ISR to ask for now, or None. Decided when a report is called for, and again when it is
        put together: that may be seconds later, behind a report under way or without a controller, and a
        follower must not lose its seat for a lag that is over."""
        options = self._replica.options
        return self.in_sync.due_isr(
            now_ms=now_ms,
            leader_end_offset=self._log.log_end_offset,
            high_watermark=self._watermark.offset,
            lag_ms_max=options.lag_ms_max,
            retry_ms=options.proposal_retry_ms,
            may_promise=self._lease.is_held(now_ms),
        )

    def on_proposal_settled(self, result: IsrProposalResult, *, now_ms: int) -> Effects:
        """The proposal is answered, and the state that came with the answer is applied."""
        if result.error is not ControllerError.NONE or not self.in_sync.on_accepted(result):
            return NO_EFFECTS
        return self.commit(now_ms) + self._ask(now_ms)

    def on_proposal_refused(self, result: IsrProposalResult, *, now_ms: int) -> None:
        """The controller called the proposed follower ineligible."""
        retry_ms = self._replica.options.refused_retry_ms
        self.in_sync.on_refusal(result, now_ms=now_ms, refused_retry_ms=retry_ms)

    @property
    def is_at_rest(self) -> bool:
        in_sync, end_offset = self.in_sync, self._log.log_end_offset
        return (
            self._watermark.offset >= end_offset
            and in_sync.is_whole_at(end_offset)
            and not self._replica.has_waiters
        )

    def on_tick(self, now_ms: int) -> Effects:
        effects: Effects = NO_EFFECTS
        purgatory = self._purgatory
        if len(purgatory):
            if not self.may_serve(now_ms):
                failed = purgatory.take_all()
                effects = (
                    CompleteProduce(failed, ErrorCode.NOT_LEADER_OR_FOLLOWER),
                    Remark(
                        RemarkKind.LEASE_LAPSED,
                        f"lease lapsed: {len(failed)} waiting producers failed",
                        is_warning=True,
                    ),
                )
            elif now_ms >= purgatory.next_expiry_ms:
                expired = purgatory.expire(now_ms)
                if expired:
                    effects = (CompleteProduce(expired, self._timeout_error),)
        if len(self._deletions):
            effects += self._look_at_deletions(now_ms)
        if self._watermark.offset < self._log.log_end_offset:
            effects += self.commit(now_ms)
        return effects + self._ask(now_ms)

    @property
    def _timeout_error(self) -> ErrorCode:
        """Return the error of a wait that timed out. Both are ambiguous; NOT_ENOUGH_REPLICAS_AFTER_APPEND
        says why the wait was in vain (S31, the ISR falls below the minimum)."""
        if self.in_sync.is_under_min:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.REQUEST_TIMED_OUT

    def _ask(self, now_ms: int) -> Effects:
        """Call for a report if there is something to propose."""
        return NO_EFFECTS if self._due_isr(now_ms) is None else (PROPOSAL_READY,)

    def lag(self, now_ms: int) -> PartitionLag:
        """Return the row of the lag report."""
        log = self._log
        state = self.in_sync.state
        return PartitionLag(
            topic_id=state.topic_id,
            partition=state.partition,
            leader_epoch=self.leader_epoch,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=self._watermark.offset,
            size_bytes=log.size_bytes,
            followers=self.in_sync.lags(
                now_ms=now_ms,
                leader_end_offset=log.log_end_offset,
                remaining_bytes=lambda offset: log.size_bytes - log.size_below(offset),
            ),
            transactions=self.open_transactions(now_ms),
        )
