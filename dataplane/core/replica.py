"""One partition on this broker: what it may do, decided from its state, its log and the time it is told.

              on_partition_state: leader = me                     leader = other
      none --------------------------------> leader <-----------------------> follower
        ^                                      |   LogError anywhere             |
        +-- I am not among the replicas        +-------------> offline <---------+  (for this process's life)

Rules, in short:
 1. A state is applied iff its partition epoch is higher than the one held (I6, partition epochs order
    everything); a higher leader epoch is always a fresh leadership, also for a leader that stays (I3 (only
    this epoch's evidence counts), S7 (an epoch in between was missed)): follower positions are forgotten.
 2. What is committed rests on epochs and set inclusion (isr.py, watermarks.py), never on clocks. The lease
    only silences (lease.py).
 3. Every public method is one no-await step: it checks, writes to the log through the port, and updates its
    state together. Nothing waits here; what has to wait is an effect or a parked waiter (purgatory.py).
 4. A state counts as applied only after its transition is complete; delivering it again repeats the standing
    effects (I25 (applied is said afterwards), S33 (an exception in a transition)).

This class goes from role to role. `role` is the present one (role.py), and answers clients, followers, the
leader and the clock.
"""

from __future__ import annotations

from dataplane.core.effects import (
    LEADERSHIP_CHANGED,
    NO_EFFECTS,
    PERSIST_EPOCHS,
    STOP_FETCHING,
    Effects,
    Remark,
    RemarkKind,
)
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.follower import Follower
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogError
from dataplane.core.role import Offline, ReplicaParts
from springtide.contract.epochs import NO_LEADER_EPOCH
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposalResult, ProblemCode
from springtide.contract.partition_state import LeaderRecovery, PartitionState
from springtide.wire.errors import ErrorCode


class Replica(ReplicaParts):
    __slots__ = ()

    def on_partition_state(self, state: PartitionState, *, now_ms: int) -> Effects:
        """Apply the controller's state, from a batch or a proposal's answer. Older or equal partition epochs
        change nothing; an equal one repeats the standing effects. The caller has checked topic id, controller
        epoch and broker epoch of the batch (I5 (one writer of metadata), I8 (broker epochs fence
        incarnations), I21 (topic ids decide))."""
        assert (state.topic_id, state.partition) == (self.topic_id, self.partition)
        current = self.state
        if current is not None:
            if state.partition_epoch == current.partition_epoch:
                if self._is_elected_into_the_past(state):
                    return self._lead_not(state)
                standing = self.role.standing_effects()
                return (*standing, self.rot_problem()) if self.log.rotten else standing
            if state.partition_epoch < current.partition_epoch:
                return NO_EFFECTS
            if state.leader_epoch < current.leader_epoch:
                return (
                    Remark(
                        RemarkKind.STATE_GOES_BACK,
                        f"partition epoch {state.partition_epoch} goes back from leader epoch "
                        f"{current.leader_epoch} to {state.leader_epoch}: ignored",
                        is_warning=True,
                    ),
                )
        if isinstance(self.role, Offline):
            self.state = state
            return NO_EFFECTS
        try:
            if state.leader == self.broker_id:
                effects = self._lead(state, now_ms)
            elif self.broker_id in state.replicas:
                effects = self._follow(state)
            else:
                effects = self._leave()
        except LogError as error:
            self.state = state
            return self.go_offline(str(error))
        self.state = state
        # 5.7 (scrubbing): reported with every state in which this replica has a seat, until it has none: the
        # controller remembers nothing of it, and may take the seat only when another can lead.
        has_seat = self.broker_id in state.isr or self.broker_id in state.elr
        if self.log.rotten and (has_seat or current is None):
            return (*effects, self.rot_problem())
        return effects

    def _lead(self, state: PartitionState, now_ms: int) -> Effects:
        role, log = self.role, self.log
        if isinstance(role, Leader) and role.leader_epoch == state.leader_epoch:
            return role.on_state(state, now_ms)
        if self._is_elected_into_the_past(state):
            return self._lead_not(state)
        log.begin_leader_epoch(state.leader_epoch)
        if state.unclean_leader_epoch > log.epochs.reconciled:
            # Every log is to agree with this one from here on; no mark so far may make it cut (I15, no cut
            # below the high watermark).
            log.note_reconciled(state.leader_epoch)
        # Waiting producers stay: as long as this replica has not followed another, its log still holds what
        # they wrote, and the purgatory checks that again before it says so (I4, acknowledged means
        # committed).
        leader = Leader(self, state, epoch_start_offset=log.epochs.latest_start_offset, now_ms=now_ms)
        self.role = leader
        effects: Effects = (PERSIST_EPOCHS, LEADERSHIP_CHANGED, *leader.on_vouched(now_ms=now_ms))
        return (STOP_FETCHING, *effects) if isinstance(role, Follower) else effects

    def _is_elected_into_the_past(self, state: PartitionState) -> bool:
        """Only a controller that lost its memory elects so."""
        return (
            state.leader == self.broker_id
            and self.log.epochs.latest > state.leader_epoch
            and not isinstance(self.role, Offline)
        )

    def _lead_not(self, state: PartitionState) -> Effects:
        """Touch nothing and call for help: what was written in the later epoch may be committed."""
        detail = f"elected in leader epoch {state.leader_epoch}, but the log holds {self.log.epochs.latest}"
        return (
            *self._leave(),
            self.problem(ProblemCode.QUARANTINED, detail, leader_epoch=state.leader_epoch),
        )

    def _follow(self, state: PartitionState) -> Effects:
        role, current = self.role, self.state
        if (
            isinstance(role, Follower)
            and current is not None
            and (current.leader_epoch, current.leader) == (state.leader_epoch, state.leader)
        ):
            return role.on_state(state)
        effects = self.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.role = Follower(self, state)
        return effects + self.role.standing_effects()

    def _leave(self) -> Effects:
        return (*self.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER), STOP_FETCHING)

    @property
    def leading(self) -> Leader | None:
        """Return the role if this replica leads."""
        role = self.role
        return role if isinstance(role, Leader) else None

    @property
    def following(self) -> Follower | None:
        """Return the role if this replica follows."""
        role = self.role
        return role if isinstance(role, Follower) else None

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Return the committed ISR plus promised additions, in assignment order; empty unless leader."""
        leader = self.leading
        return () if leader is None else leader.maximal_isr

    def next_fetch(self) -> FetchPosition | None:
        """Return what to ask the leader, or None if this replica does not follow, or fetches nothing now."""
        follower = self.following
        return None if follower is None else follower.next_fetch()

    @property
    def scrub_end(self) -> int:
        """Return up to where this replica answers for its bytes (5.7, scrubbing): a leader for all that
        followers get from it, another replica for what it knows to be committed."""
        return self.log.log_end_offset if isinstance(self.role, Leader) else self.high_watermark

    def on_rotten(self) -> Effects:
        """The log has learnt that bytes of it are rotten (5.7, scrubbing): the controller is told, and a
        replica without a seat mends at once."""
        if isinstance(self.role, Offline):
            return NO_EFFECTS
        return (self.rot_problem(), *self.role.standing_effects())

    def on_mended(self) -> Effects:
        """Something that was rotten is whole again, or gone with what was deleted: if that was all, the
        replica goes on fetching from where it was."""
        if isinstance(self.role, Offline):
            return NO_EFFECTS
        standing = self.role.standing_effects()
        if self.log.rotten:
            return standing
        return (
            self.problem(
                ProblemCode.MENDED, "nothing of it is rotten any more", leader_epoch=NO_LEADER_EPOCH
            ),
            *standing,
        )

    def on_deleted(self) -> Effects:
        """The topic is being deleted, or this replica is going away: fail all waiters, stop fetching (L1, no
        waiter hangs)."""
        return self._leave()

    def on_proposal_result(self, result: IsrProposalResult, *, now_ms: int) -> Effects:
        """Apply a newer state that the result brings, by the usual rule. Only such a state ends the promise
        (2.5, promises): an acceptance brings one, and so does a refusal. Else the leader asks again."""
        effects = NO_EFFECTS
        leader = self.leading
        if leader is not None and result.error is ControllerError.INELIGIBLE_REPLICA:
            leader.on_proposal_refused(result, now_ms=now_ms)
        state = result.state
        if state is not None and state.recovery is LeaderRecovery.UNKNOWN:
            state = None  # of a later release: its batch is refused, too
        if state is not None and (self.state is None or state.partition_epoch > self.state.partition_epoch):
            effects = self.on_partition_state(state, now_ms=now_ms)
        leader = self.leading
        return effects if leader is None else effects + leader.on_proposal_settled(result, now_ms=now_ms)
