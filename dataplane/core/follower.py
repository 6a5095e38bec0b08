"""A replica while it follows: it copies the leader's log, and cuts its own where the two part.

    idle (no leader)   fetching --diverging answer--> holding --copied--> fetching
                          |                              |
                          +--- I15 ---> quarantined <----+      (until another leader epoch)

Truncation is decided by leader epochs, never by the high watermark (KIP-101, KIP-279). Every fetch states the
newest epoch of the follower's history; a leader whose log does not contain that prefix answers with its own
latest epoch at or below it and where that ends, and no data. The follower cuts to what both have and asks
again; each round removes at least one epoch or record, so it ends (5.2 (the exchange), S8 (two failovers)).
The first answer in a new leader epoch thus settles the truncation before anything is appended (I14, truncate
before fetching), also when the leader is the same (S10, a follower misses an epoch).

Nothing is dropped silently: the records to be cut are first copied to `divergent/`, durably; until that is
reported the replica holds still and its log is whole. And nothing that it knows to be committed is dropped at
all, unless the partition carries an unclean-election mark newer than its log (I15, no cut below the high
watermark): it stops and an operator is told, because a follower that obeys a leader that lost data turns a
local loss into the cluster's.

An answer counts only if leader epoch, fetch offset and newest epoch of its request are still current: a late
answer to what was asked before a cut would cut the records that took the place of those. A diverging answer's
high watermark and log start are not looked at (I16, truncation before any high watermark; KAFKA-14704).

Consumers may read here, too, below this replica's own high watermark (2.11, reads from followers; KIP-392):
what it knows to be committed is, as old as it may be. It answers clients that ask a follower on purpose,
while it is in sync as far as it knows and its log was found to be a prefix of the present leader's.
"""

from __future__ import annotations

from enum import Enum, auto

from dataplane.core.compaction.known import round_in
from dataplane.core.effects import (
    HIGH_WATERMARK_MOVED,
    LOG_START_MOVED,
    NO_EFFECTS,
    PERSIST_EPOCHS,
    STOP_FETCHING,
    VOUCH,
    BackOff,
    CopyDivergent,
    Effects,
    MendLog,
    Remark,
    RemarkKind,
    ReportProblem,
    StartFetching,
)
from dataplane.core.fetch import ConsumerFetch
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.leader_epochs import UNDEFINED_END
from dataplane.core.log_port import Buffer, LogError
from dataplane.core.producer_state import CorruptProducerSnapshot, decode_told_states
from dataplane.core.results import FetchResult, LeaderAnswer, ProducersResult
from dataplane.core.role import ReplicaParts, ReplicaRole, check_position, out_of_range
from dataplane.core.titles import NewerFormat
from dataplane.core.watermarks import UNKNOWN_OFFSET
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import ProblemCode
from springtide.contract.partition_state import NO_LEADER, PartitionState
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.fetch_response import Compacted, EpochEnd
from springtide.wire.markers import read_marker
from springtide.wire.record_batch import BatchHeader, CorruptBatch, crc_is_valid, iter_headers


class Phase(Enum):
    IDLE = auto()
    FETCHING = auto()
    HOLDING = auto()
    QUARANTINED = auto()


class Follower(ReplicaRole):
    """One object is one leader epoch of following; a hold or a quarantine ends with it. The log is untouched
    by either, so trying again under another leader is safe (L6, every follower is fetched for)."""

    __slots__ = (
        "_has_agreed",
        "_has_asked",
        "_hold",
        "_leader_start_offset",
        "_retry_copy_ms",
        "_state",
        "_trouble",
        "phase",
    )

    name = "follower"
    is_assigned = True

    def __init__(self, replica: ReplicaParts, state: PartitionState) -> None:
        super().__init__(replica)
        #: The leader of this leader epoch has found this log to be a prefix of its own.
        self._has_agreed = False
        #: It may have told its leader, in this leader epoch, how far its log reaches.
        self._has_asked = False
        #: The highest log start that this leader has told in this leader epoch.
        self._leader_start_offset = UNKNOWN_OFFSET
        self.phase = Phase.IDLE if state.leader == NO_LEADER else Phase.FETCHING
        self._state = state
        self._hold: CopyDivergent | None = None
        self._retry_copy_ms: int | None = None
        #: What it told of a quarantine, or of the batch that it refused last: told again with each state, for
        #: a controller that took over.
        self._trouble: ReportProblem | None = None

    def on_state(self, state: PartitionState) -> Effects:
        """A newer state of the same leader epoch and leader."""
        assert (state.leader_epoch, state.leader) == (self._state.leader_epoch, self._state.leader)
        self._state = state
        return self.standing_effects()

    @property
    def _is_mending(self) -> bool:
        """Rotten, and without a seat: until it is mended it does not fetch, so no leader can propose it
        (5.7, scrubbing). With a seat it goes on: its leader waits for it until the seat is taken."""
        return bool(self._log.rotten) and not self._has_seat

    @property
    def _has_seat(self) -> bool:
        return self._replica.broker_id in (*self._state.isr, *self._state.elr)

    def standing_effects(self) -> Effects:
        effects = self._standing_effects()
        return effects if self._trouble is None else (*effects, self._trouble)

    def _standing_effects(self) -> Effects:
        if self.phase is Phase.FETCHING and self._is_mending:
            return (STOP_FETCHING, MendLog(self._state.leader, self._state.leader_epoch))
        if self.phase is Phase.FETCHING:
            if self._log.must_vouch:  # a fetch from its end would vouch for more than it may
                return (STOP_FETCHING, VOUCH)
            return (StartFetching(self._state.leader, self._state.leader_epoch),)
        if self.phase is Phase.HOLDING and self._hold is not None and self._retry_copy_ms is None:
            return (STOP_FETCHING, self._hold)
        return (STOP_FETCHING,)

    def on_vouched(self, *, now_ms: int) -> Effects:
        return self.standing_effects()

    def on_log_start_stored(self, offset: int, *, now_ms: int) -> Effects:
        """The next fetch tells it."""
        super().on_log_start_stored(offset, now_ms=now_ms)
        return self.standing_effects()

    def next_fetch(self) -> FetchPosition | None:
        """Return what to ask the leader, or None: holding before a truncation, quarantined, or mending."""
        log = self._log
        if self.phase is not Phase.FETCHING or log.must_vouch or (log.rotten and self._is_mending):
            return None
        self._has_asked = True
        return FetchPosition(
            log.log_end_offset,
            log.epochs.latest,
            self._state.leader_epoch,
            self._log_start.offset,
            self._replica.options.fetch_bytes_max if self._has_room(0) else 0,
            not log.producers.is_whole,
        )

    def _has_room(self, size_bytes: int) -> bool:
        return self._log.room.admits(size_bytes, is_internal=self._state.shard is not None)

    def log_mark(self) -> LogMark | None:
        """Return a mark of what this log holds before its end: it goes with a fetch that begins with a leader
        (3.10, a host that goes back). It names no batch that compaction may have made another than the
        leader's. None: the log can't be read, which the fetch itself will find out."""
        log = self._log
        end_offset, compacted_to = log.log_end_offset, log.rounds.compacted_to
        try:
            headers = [h for h in log.last_batches(end_offset) or () if h.base_offset >= compacted_to]
        except LogError:
            return None
        return LogMark(
            self._state.partition_epoch,
            self._leader_start_offset,
            tuple((header.base_offset, header.crc) for header in headers),
        )

    def on_fetched(
        self, fetched: LeaderAnswer, *, asked: FetchPosition, now_ms: int, wall_ms: int
    ) -> Effects:
        """The leader answered what was `asked`. Applied only if that is still the position of this log, in
        this leader epoch. Afterwards ask `next_fetch()` again."""
        log = self._log
        if self.phase is not Phase.FETCHING or (
            asked.leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
        ) != (self._state.leader_epoch, log.log_end_offset, log.epochs.latest):
            return NO_EFFECTS
        try:
            effects = self._take(fetched, wall_ms=wall_ms)
        except LogError as error:
            return self._replica.go_offline(str(error))
        return (*effects, LOG_START_MOVED) if self._log_start.must_store() else effects

    def _take(self, fetched: LeaderAnswer, *, wall_ms: int) -> Effects:
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._note_leader_start(fetched.log_start_offset)
            return self._on_out_of_range(fetched.log_start_offset)
        if fetched.error is not ErrorCode.NONE:
            return (BackOff(self._replica.options.fetch_backoff_ms, fetched.error),)
        if fetched.diverging is not None:
            return self._on_diverging(fetched.diverging)
        self._note_leader_start(fetched.log_start_offset)
        anew = self._begin_anew(fetched.compacted)
        if anew is not None:
            return anew
        self._has_agreed = True
        effects = self._reconcile()
        fetch_offset = self._log.log_end_offset
        if len(fetched.producers):
            refusal = self._learn(fetched.producers)
            if refusal is not None:
                rest = BackOff(self._replica.options.fetch_backoff_ms, ErrorCode.CORRUPT_MESSAGE)
                return (*effects, rest, *self._tell_of_refusal(refusal))
        records = fetched.records
        if len(records) and not self._has_room(len(records)):  # asked for before, or of an older release
            rest = BackOff(self._replica.options.fetch_backoff_ms, ErrorCode.KAFKA_STORAGE_ERROR)
            effects, records = (*effects, rest), b""
        if records:
            refusal = self._append(memoryview(records), wall_ms=wall_ms)
            if refusal is not None:
                return (
                    *effects,
                    BackOff(self._replica.options.fetch_backoff_ms, ErrorCode.CORRUPT_MESSAGE),
                    *self._tell_of_refusal(refusal),
                )
            if self._trouble is not None:
                refused = self._trouble.problem.first_offset
                detail = f"leader {self._state.leader} sent what was refused at {refused}, whole"
                self._trouble = None
                effects = (*effects, self._problem(ProblemCode.BATCH_TAKEN, detail, fetch_offset, -1))
        log = self._log
        if fetched.high_watermark > self._watermark.offset and self._watermark.raise_to(
            min(fetched.high_watermark, log.log_end_offset)
        ):
            effects = (*effects, HIGH_WATERMARK_MOVED)
        self._follow_log_start(fetched.log_start_offset)
        if records and self._log.must_vouch:
            effects = (*effects, STOP_FETCHING, VOUCH)
        return effects

    def _note_leader_start(self, log_start_offset: int) -> None:
        """Note the log start in the answer to a fetch, which is this leader's in this leader epoch. The
        answer to a mend (5.7, scrubbing) may be late, from an earlier leader: this one must not be refuted by
        it."""
        self._leader_start_offset = max(self._leader_start_offset, log_start_offset)

    def on_deleted_at_leader(self, log_start_offset: int) -> Effects:
        """The leader, asked to mend what is rotten here, answered that its log begins above: nothing of it is
        needed any more (5.7, scrubbing). Ask `Replica.on_mended` afterwards what to do."""
        self._follow_log_start(log_start_offset)
        return (LOG_START_MOVED,) if self._log_start.must_store() else NO_EFFECTS

    def _follow_log_start(self, leader_start_offset: int) -> None:
        """Advance the log start with the leader's, but never past our own high watermark (I26, start, high
        watermark and end in order); the rest follows with it."""
        start = min(leader_start_offset, self._watermark.offset)
        if start > self._log.log_start_offset:
            self._log.advance_log_start(start)

    def _begin_anew(self, told: Compacted | None) -> Effects | None:
        """Empty this log, or return None. It may hold records whose tombstones are gone from the leader's; or
        lack records whose newer ones an unclean election has dropped. What is not known to be committed is
        copied first. A member of the in-sync set has every tombstone: one that has not does not know yet
        that it has lost its seat."""
        log = self._log
        start_offset, end_offset = log.log_start_offset, log.log_end_offset
        is_dead = told is not None and log.rounds.must_restart(told, log_end_offset=end_offset)
        is_torn = self._is_marked_unclean and log.rounds.is_spoilt_by_cut(end_offset)
        if start_offset == end_offset or not (is_dead or is_torn):
            if told is not None:
                log.note_compacted(told)
            return None
        if self._has_seat:
            return (BackOff(self._replica.options.fetch_backoff_ms, ErrorCode.OFFSET_NOT_AVAILABLE),)
        unproven = start_offset if self._is_marked_unclean else max(start_offset, self._watermark.offset)
        if unproven < end_offset:
            return self._hold_for(first_offset=unproven, cut_offset=start_offset)
        self._cut_to(start_offset)
        return (
            Remark(
                RemarkKind.BEGUN_ANEW_FOR_A_ROUND,
                f"begun anew at {start_offset}: leader {self._state.leader} has been compacted",
            ),
        )

    def on_unfit(
        self, fetched: LeaderAnswer, *, at_high_watermark: LeaderAnswer, leader_epoch: LeaderEpoch
    ) -> Effects:
        """The leader of this leader epoch, asked as by its follower for the records of the first hole,
        answered `fetched`, and those records do not fill it (`scrubbing.mend_position`). at_high_watermark:
        its answer to a consumer that has read all that is known here to be committed
        (`scrubbing.committed_position`). Begin anew, or ask again later.

        Where rounds of compaction have gone over a hole, here or at the leader, its records may never be
        had again as they were: the log begins anew, with a copy of the leader's, and what is good of it is
        copied first. Elsewhere another leader may have them. A leader that lacks what is known to be
        committed here lost it, and is not copied (I15, no cut below the high watermark). A leader that was
        told how far this log reaches may propose it for the in-sync set, and a fetch that says so may still
        be on its way: the controller then makes a new leader epoch first."""
        log = self._log
        if (
            not self._is_mending
            or self.phase is not Phase.FETCHING
            or leader_epoch != self._state.leader_epoch
        ):
            return NO_EFFECTS
        if any(
            answer.error is not ErrorCode.NONE or answer.diverging is not None
            for answer in ((fetched,) if self._is_marked_unclean else (fetched, at_high_watermark))
        ):
            return NO_EFFECTS
        try:
            if fetched.compacted is not None:
                log.note_compacted(fetched.compacted)
        except LogError as error:
            return self._replica.go_offline(str(error))
        hole = log.rotten[0]
        if log.rounds.compacted_to <= hole.first_offset:
            return NO_EFFECTS
        if self._has_asked:
            return (self._replica.rot_problem(),)
        start_offset = log.log_start_offset
        return (
            *self._hold_for(first_offset=start_offset, cut_offset=start_offset),
            Remark(
                RemarkKind.BEGINS_ANEW_FOR_ROT,
                f"begins anew at {start_offset}: rotten at {hole.first_offset}, and leader "
                f"{self._state.leader} does not have these records as they were",
                is_warning=True,
            ),
        )

    def _tell_of_refusal(self, refusal: str) -> Effects:
        """Report it once an offset. This broker can't know which of the two is damaged: the leader, which is
        asked for the same offset again, looks at its own bytes."""
        end_offset = self._log.log_end_offset
        if self._trouble is not None and self._trouble.problem.first_offset == end_offset:
            return NO_EFFECTS
        detail = f"leader {self._state.leader} sent {refusal}"
        self._trouble = self._problem(ProblemCode.BATCH_REFUSED, detail, end_offset, -1)
        return (self._trouble, Remark(RemarkKind.BATCH_REFUSED, detail, is_warning=True))

    def _reconcile(self) -> Effects:
        """The leader found our log to be a prefix of its own: a mark of an unclean election that our state
        carries has had its effect, and must not have it again under another leader (I15, no cut below the
        high watermark)."""
        log = self._log
        if self._state.unclean_leader_epoch <= log.epochs.reconciled:
            return NO_EFFECTS
        log.note_reconciled(self._state.leader_epoch)
        return (PERSIST_EPOCHS,)

    def _learn(self, producers: Buffer) -> str | None:
        """Take in what the leader knows of producers (6.10, a copy knows its producers); what is wrong with
        it if not."""
        log = self._log
        if log.producers.is_whole:
            return None
        try:
            log.learn_producers(decode_told_states(bytes(producers), log_offset=log.log_end_offset))
        except (CorruptProducerSnapshot, NewerFormat) as corrupt:
            return f"no producers: {corrupt}"
        return None

    def _append(self, records: memoryview, *, wall_ms: int) -> str | None:
        """Write the whole batches verbatim; what is wrong with them if not (then nothing is written)."""
        log = self._log
        expected = log.log_end_offset
        epoch_min: int = log.epochs.latest
        begin_at: int | None = None
        headers: list[BatchHeader] = []
        has_markers = False
        end = 0
        try:
            for position, header in iter_headers(records):
                if header.last_offset_delta < 0:
                    return f"a batch that ends before it begins, at offset {header.base_offset}"
                if header.base_offset < expected:
                    if headers or header.next_offset <= expected or expected != log.log_start_offset:
                        return f"offset {header.base_offset} where {expected} was due"
                    # The leader's log start lies within a batch (DeleteRecords), and we begin there empty:
                    # batches are stored whole, so the log begins with this one.
                    begin_at = header.base_offset
                if not epoch_min <= header.leader_epoch <= self._state.leader_epoch:
                    return f"a batch of epoch {header.leader_epoch} at offset {header.base_offset}"
                if not crc_is_valid(records[position:], header):
                    return f"a batch with a wrong CRC at offset {header.base_offset}"
                if header.is_control:
                    round_in(header, records[position : position + header.size_bytes])
                    if header.has_producer_id:
                        read_marker(records[position : position + header.size_bytes], header)
                        has_markers = True
                headers.append(header)
                expected = header.next_offset
                epoch_min = header.leader_epoch
                end = position + header.size_bytes
        except CorruptBatch as corrupt:
            return f"no batches: {corrupt.reason}"
        except NewerFormat as newer:
            return f"what this broker must not take without knowing it: {newer}"
        if begin_at is not None:
            self._restart_at(begin_at)
        if headers:
            log.append(headers, (records[:end],), now_ms=wall_ms)
            if has_markers:
                log.producers.transactions.on_high_watermark(self._watermark.offset)
        return None

    # Consumers.

    def describe_producers(self, now_ms: int, *, is_copy_enough: bool = False) -> ProducersResult:
        if not is_copy_enough:
            return ProducersResult(self.refusal)
        return ProducersResult(ErrorCode.NONE, tuple(self._log.producers.active_producers()))

    def on_consumer_fetch(self, fetch: ConsumerFetch, *, now_ms: int) -> tuple[FetchResult, Effects]:
        """Changes nothing here, and nothing that the leader knows of this follower."""
        leader_epoch, fetch_offset = fetch.position.leader_epoch, fetch.position.fetch_offset
        if leader_epoch not in (-1, self._state.leader_epoch):
            is_old = leader_epoch < self._state.leader_epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            return FetchResult(error), NO_EFFECTS
        if not fetch.is_debugging and (leader_epoch == -1 or not self._may_be_read(now_ms)):
            return FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), NO_EFFECTS
        log = self._log
        # Once, before the read (I18, reads stop at the high watermark).
        high_watermark = self._watermark.offset
        if fetch_offset < log.log_start_offset:
            return out_of_range(log), NO_EFFECTS
        if fetch_offset > high_watermark:
            # Committed or not, here or not yet: a leader knows. Out of range would be a guess.
            return FetchResult(ErrorCode.OFFSET_NOT_AVAILABLE), NO_EFFECTS
        refusal = check_position(log, fetch_offset, fetch.position.last_fetched_epoch)
        if refusal is not None:
            return refusal, NO_EFFECTS
        return self._read_committed(fetch, high_watermark)

    def _may_be_read(self, now_ms: int) -> bool:
        return (
            self._has_agreed
            and self.phase is Phase.FETCHING
            and self._replica.broker_id in self._state.isr
            and self._replica.lease.is_held(now_ms)
        )

    # Where the logs part.

    def _on_diverging(self, leader_end: EpochEnd) -> Effects:
        log = self._log
        end_offset = log.log_end_offset
        local = log.epochs.end_offset_for(leader_end.leader_epoch, log_end_offset=end_offset)
        if local == UNDEFINED_END or leader_end.end_offset < 0:
            return (
                BackOff(self._replica.options.fetch_backoff_ms, ErrorCode.UNKNOWN_SERVER_ERROR),
                Remark(
                    RemarkKind.DIVERGES_AT_UNKNOWN,
                    f"leader {self._state.leader} diverges at an unknown {leader_end}",
                    is_warning=True,
                ),
            )
        cut = min(local.end_offset, end_offset)
        if local.leader_epoch == leader_end.leader_epoch:
            cut = min(cut, leader_end.end_offset)
        if cut == end_offset and log.epochs.latest_start_offset < end_offset:
            # It would remove neither a record nor an epoch, and so be asked for again and again.
            return (
                BackOff(self._replica.options.fetch_backoff_ms, ErrorCode.UNKNOWN_SERVER_ERROR),
                Remark(
                    RemarkKind.DIVERGES_NOWHERE,
                    f"leader {self._state.leader} diverges nowhere: {leader_end}",
                    is_warning=True,
                ),
            )
        if leader_end.leader_epoch == log.epochs.latest == self._state.leader_epoch and cut < end_offset:
            # What we have of this leader epoch came from this very leader: it went back, not we (3.10, a host
            # that goes back).
            return self._quarantine(cut, f"ahead of leader {self._state.leader} in its own leader epoch")
        if cut < self._watermark.offset and not self._is_marked_unclean:
            return self._quarantine(cut, f"leader {self._state.leader} diverges below the high watermark")
        if cut >= end_offset:
            self._cut_to(cut)
            return NO_EFFECTS
        return self._hold_for(first_offset=max(cut, log.log_start_offset), cut_offset=cut)

    def _hold_for(self, *, first_offset: int, cut_offset: int) -> Effects:
        self.phase = Phase.HOLDING
        self._retry_copy_ms = None
        self._hold = CopyDivergent(
            hold_id=next(self._replica.hold_ids),
            first_offset=first_offset,
            next_offset=self._log.log_end_offset,
            leader_epoch=self._state.leader_epoch,
            high_watermark=self._watermark.offset,
            cut_offset=cut_offset,
        )
        return (STOP_FETCHING, self._hold)

    def on_divergent_copied(self, hold_id: int, *, error: str | None, now_ms: int) -> Effects:
        """The copy that CopyDivergent asked for is durable, or could not be made (then it is asked for again
        after a while, and an operator is told)."""
        hold = self._hold
        if self.phase is not Phase.HOLDING or hold is None or hold.hold_id != hold_id:
            return NO_EFFECTS  # of an earlier leader epoch: the copy does no harm, the cut is off
        if error is not None:
            self._retry_copy_ms = now_ms + self._replica.options.copy_retry_ms
            return (
                self._problem(
                    ProblemCode.STORAGE_ERROR,
                    f"can't write aside before a truncation: {error}",
                    hold.first_offset,
                    hold.next_offset,
                ),
            )
        problem = self._problem(
            ProblemCode.DIVERGENT,
            f"written aside, then cut, to follow leader {self._state.leader}",
            hold.first_offset,
            hold.next_offset,
        )
        try:
            self._cut_to(hold.cut_offset)
        except LogError as failure:
            return self._replica.go_offline(str(failure))
        self._hold = None
        self.phase = Phase.FETCHING
        return (problem, *self.standing_effects())

    @property
    def is_at_rest(self) -> bool:
        return self._retry_copy_ms is None

    def on_tick(self, now_ms: int) -> Effects:
        if self._retry_copy_ms is None or now_ms < self._retry_copy_ms or self._hold is None:
            return NO_EFFECTS
        self._retry_copy_ms = None
        return (self._hold,)

    def _on_out_of_range(self, leader_start_offset: int) -> Effects:
        """Begin anew at the leader's log start if this log ends below it: the leader has deleted what
        stood at these offsets. Its epochs of that time are gone, too, so it is unknown whether the records
        were the same: what is not known to be committed, or under a mark all of it, is copied first.
        Otherwise this log is ahead of the leader without evidence of another epoch, which only corruption
        explains."""
        log = self._log
        if leader_start_offset < 0:
            return (BackOff(self._replica.options.fetch_backoff_ms, ErrorCode.OFFSET_OUT_OF_RANGE),)
        is_marked = self._is_marked_unclean
        if log.log_end_offset < leader_start_offset or (
            log.log_end_offset == log.log_start_offset and is_marked
        ):
            unproven = log.log_start_offset if is_marked else self._watermark.offset
            if unproven < log.log_end_offset:
                return self._hold_for(first_offset=unproven, cut_offset=leader_start_offset)
            self._restart_at(leader_start_offset)
            return (STOP_FETCHING, VOUCH) if self._log.must_vouch else NO_EFFECTS
        return self._quarantine(
            leader_start_offset, f"ahead of leader {self._state.leader} in the same epochs"
        )

    @property
    def _is_marked_unclean(self) -> bool:
        """I15: a mark that is newer than this log."""
        epochs = self._log.epochs
        return self._state.unclean_leader_epoch > max(epochs.latest, epochs.reconciled)

    def _cut_to(self, offset: int) -> None:
        log = self._log
        if offset < log.log_start_offset or offset > log.log_end_offset:
            self._restart_at(offset)
            return
        if log.rounds.is_spoilt_by_cut(offset):  # it lacks records that the leader has below this offset
            self._restart_at(log.log_start_offset)
            return
        log.truncate_to(offset)
        self._watermark.on_log_cut()

    def _restart_at(self, offset: int) -> None:
        self._log.restart_at(offset)
        self._watermark.restart_at(offset)
        self._log_start.restart_at(offset)

    def _quarantine(self, cut: int, why: str) -> Effects:
        self.phase = Phase.QUARANTINED
        self._trouble = self._problem(
            ProblemCode.QUARANTINED, f"{why}; log left as it is", cut, self._log.log_end_offset
        )
        return (STOP_FETCHING, self._trouble)

    def _problem(self, code: ProblemCode, detail: str, first_offset: int, next_offset: int) -> ReportProblem:
        return self._replica.problem(
            code,
            detail,
            leader_epoch=self._state.leader_epoch,
            first_offset=first_offset,
            next_offset=next_offset,
        )
