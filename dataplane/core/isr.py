"""The in-sync set as its leader sees it: which replicas must be waited for, may join, or have to go.

    committed --propose--> pending --newer partition epoch (answer or push)--> committed

*Maximal ISR* = committed ISR plus what the pending proposal would add. The high watermark waits for all of
it. An addition counts from the moment its proposal is built, before it is sent; a removal counts only once
the controller has persisted it. So the leader is never laxer than the controller, also when messages are
lost, delayed or delivered twice (I2, the leader is never laxer; KIP-497).

Only a state with a partition epoch above the proposal's base ends a promise, or the answer that the present
state is as proposed already (I6, docs/replication.md 2.5, promises). Not an error, not silence, not time. So
the controller raises the partition epoch even when it refuses a member: a delayed copy of the same request
may reach it, or the next controller, later.

One value lives for one leader epoch. The next epoch starts from nothing known about any follower, also when
the leader stays the same (I3 (only this epoch's evidence counts), S7 (an epoch in between was missed)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import Contact
from dataplane.core.watermarks import UNKNOWN_OFFSET
from springtide.contract.epochs import NO_BROKER_EPOCH, BrokerEpoch
from springtide.contract.lag_report import FollowerLag, IsrMember, IsrProposal, IsrProposalResult
from springtide.contract.partition_state import LeaderRecovery, PartitionState
from springtide.contract.throttles import is_learner
from springtide.contract.updates import BrokerEndpoint
from springtide.node.lease import NEVER_MS

_NO_FETCH_YET = 2**62


@dataclass(slots=True, eq=False)
class FollowerProgress:
    """One follower in the current leader epoch, from its successful fetches only (I17, only successful reads
    teach).

    log_end_offset: the offset it last asked from, which is the end of what it has written; UNKNOWN_OFFSET
    before its first fetch in this epoch. log_start_offset: the one it last told, which it has stored.
    broker_epoch: of the incarnation that fetched; -1 before that.
    last_caught_up_ms: when it last had everything that the log held at the time.
    """

    broker_id: int
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_caught_up_ms: int = NEVER_MS
    last_fetch_ms: int = NEVER_MS
    #: The leader's log end at the last fetch. A follower is caught up if it reaches *that* by its next
    #: fetch, so a steady trickle of small writes does not evict it (2.3, lagging).
    last_fetch_end_offset: int = _NO_FETCH_YET
    contact: Contact | None = None
    #: How often in a row it asked from the same offset although there was more: it may refuse what it is
    #: given.
    repeats: int = 0

    @property
    def last_heard_ms(self) -> int:
        """Return when the follower last asked, or kept asking, for this partition."""
        contact = self.contact
        if contact is None or contact.last_fetch_ms < self.last_fetch_ms:
            return self.last_fetch_ms
        return contact.last_fetch_ms

    @property
    def vouched_ms(self) -> int:
        """Return a time at which it was certainly still following in this leader epoch, however late its
        fetch was read. The arrival of a fetch, or another look at a parked one, proves nothing (2.9, leases;
        S52, a node stands still)."""
        contact = self.contact
        return NEVER_MS if contact is None else contact.vouched_ms

    def on_fetch(self, fetch: ReplicaFetch, *, leader_end_offset: int, now_ms: int) -> None:
        fetch_offset = fetch.position.fetch_offset
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif fetch_offset >= self.last_fetch_end_offset and self.last_fetch_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = self.last_fetch_ms
        has_room = fetch.position.max_bytes > 0
        if has_room and fetch_offset == self.log_end_offset and fetch_offset < self.last_fetch_end_offset:
            self.repeats += 1
        else:
            self.repeats = 0
        self.log_end_offset = fetch_offset
        self.log_start_offset = fetch.position.log_start_offset
        self.broker_epoch = fetch.broker_epoch
        self.last_fetch_ms = now_ms
        self.last_fetch_end_offset = leader_end_offset
        self.contact = fetch.contact

    def on_leader_append(self) -> None:
        """Note that the leader is about to write past what this follower has. Until its last sign of life it
        had everything, even if that did not mention this partition (an idle one in an incremental
        session)."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_heard_ms)

    def forget(self, *, broker_epoch: BrokerEpoch) -> None:
        """Forget the follower's progress: what an earlier incarnation fetched proves nothing (I8, broker
        epochs fence incarnations)."""
        self.broker_epoch = broker_epoch
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = NEVER_MS
        self.last_fetch_end_offset = _NO_FETCH_YET
        self.contact = None

    def is_lagging(self, *, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Return whether the follower lags (2.3, lagging). At the leader's end it is in sync, however long
        ago it fetched (KAFKA-7152)."""
        return self.log_end_offset != leader_end_offset and now_ms - self.last_caught_up_ms > lag_ms_max


@dataclass(slots=True, eq=False)
class PendingProposal:
    proposal: IsrProposal
    sent_ms: int


class InSyncSet:
    """The in-sync set of one leadership. `epoch_start_offset`: the leader's log end when it assumed this
    leader epoch. `deleted_offset`: below it clients have deleted the records, or an earlier leader may have
    done so for them: a replica that joins has no such record either (I37, what a client deleted stays
    deleted)."""

    __slots__ = (
        "_broker_id",
        "_brokers",
        "_followers",
        "_next_proposal_id",
        "_one_by_one",
        "_refused_until_ms",
        "deleted_offset",
        "epoch_start_offset",
        "outsiders",
        "pending",
        "state",
        "waited_for",
    )

    def __init__(
        self,
        state: PartitionState,
        *,
        broker_id: int,
        brokers: Mapping[int, BrokerEndpoint],
        epoch_start_offset: int,
        deleted_offset: int,
        proposal_ids: Iterator[int],
        now_ms: int,
    ) -> None:
        assert state.leader == broker_id
        self._broker_id = broker_id
        self._brokers = brokers
        self._next_proposal_id = proposal_ids
        self._refused_until_ms: dict[int, int] = {}
        self._one_by_one = False
        self._followers: dict[int, FollowerProgress] = {}
        self.epoch_start_offset = epoch_start_offset
        self.deleted_offset = deleted_offset
        self.state = state
        self.pending: PendingProposal | None = None
        #: Followers in the maximal ISR, and the assigned ones outside it.
        self.waited_for: tuple[FollowerProgress, ...] = ()
        self.outsiders: tuple[FollowerProgress, ...] = ()
        self._arrange(now_ms)

    # What holds.

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Return the maximal ISR in assignment order."""
        promised = () if self.pending is None else self.pending.proposal.isr
        members = {*self.state.isr, *(member.broker_id for member in promised)}
        return tuple(broker_id for broker_id in self.state.replicas if broker_id in members)

    @property
    def is_under_min(self) -> bool:
        """Return whether there are fewer *committed* members than the minimum: then nothing may be
        acknowledged or committed."""
        return len(self.state.isr) < self.state.min_insync_replicas

    def follower(self, broker_id: int) -> FollowerProgress | None:
        return self._followers.get(broker_id)

    def known_broker_epoch(self, follower: FollowerProgress) -> int:
        """Return the highest epoch of that broker seen in a fetch or in the metadata stream."""
        endpoint = self._brokers.get(follower.broker_id)
        if endpoint is None or endpoint.broker_epoch < follower.broker_epoch:
            return follower.broker_epoch
        return endpoint.broker_epoch

    def is_eligible(self, follower: FollowerProgress) -> bool:
        """Return whether its broker is active and not about to stop, and its fetches come from the registered
        incarnation (KIP-841, KIP-903)."""
        endpoint = self._brokers.get(follower.broker_id)
        return (
            endpoint is not None
            and endpoint.active
            and endpoint.may_join
            and endpoint.broker_epoch == follower.broker_epoch
        )

    def may_join(self, follower: FollowerProgress, *, high_watermark: int) -> bool:
        """Return whether the follower may join (I9, joining takes the epoch start). A new leader's high
        watermark lags behind what is committed; the start of its epoch does not (KAFKA-7128; S5, a new
        leader's high watermark lags). A known log end means "fetched in this leader epoch"."""
        return (
            follower.log_end_offset >= max(high_watermark, self.epoch_start_offset)
            and max(0, follower.log_start_offset) >= self.deleted_offset
            and self.is_eligible(follower)
        )

    def is_worth_proposing(
        self,
        follower: FollowerProgress,
        *,
        now_ms: int,
        leader_end_offset: int,
        high_watermark: int,
        lag_ms_max: int,
    ) -> bool:
        """Return whether an outsider may join and does not lag: one that was just removed, or hangs, would
        otherwise be proposed again and again while the high watermark stands still."""
        return self.may_join(follower, high_watermark=high_watermark) and not follower.is_lagging(
            leader_end_offset=leader_end_offset, now_ms=now_ms, lag_ms_max=lag_ms_max
        )

    @property
    def stored_log_start_offset(self) -> int | None:
        """Return the lowest log start that a follower that may be elected has stored: in the maximal ISR, or
        outside of it in the ELR; None if there is no such follower."""
        elr = self.state.elr
        return min(
            (
                follower.log_start_offset
                for follower in (*self.waited_for, *self.outsiders)
                if follower in self.waited_for or follower.broker_id in elr
            ),
            default=None,
        )

    def is_worth_waiting_for(
        self, follower: FollowerProgress, *, leader_end_offset: int, now_ms: int, lag_ms_max: int
    ) -> bool:
        """Return whether the high watermark should wait for it, for liveness only: a follower that has caught
        up and may join would never reach a high watermark that runs ahead of it. Not one that can't join
        (KAFKA-15021)."""
        return (
            follower.log_end_offset != UNKNOWN_OFFSET
            and not follower.is_lagging(
                leader_end_offset=leader_end_offset, now_ms=now_ms, lag_ms_max=lag_ms_max
            )
            and self.is_eligible(follower)
        )

    def stands_in_for_the_lease(self, *, now_ms: int, lease_ms: int) -> bool:
        """Return whether the in-sync set replaces the lease: at least max(2, min) committed members, and
        every maximal one followed in this leader epoch within the lease time, so none of them has led
        since."""
        if len(self.state.isr) < max(2, self.state.min_insync_replicas):
            return False
        return all(now_ms - follower.vouched_ms < lease_ms for follower in self.waited_for)

    # Events.

    def on_state(self, state: PartitionState, *, now_ms: int) -> None:
        """Take over a newer state of the same leader epoch."""
        assert state.leader_epoch == self.state.leader_epoch
        assert state.partition_epoch > self.state.partition_epoch
        self.state = state
        # It was built on an older partition epoch, so it was applied before this state or never will be (I6,
        # partition epochs order everything). A state at or below the base is not newer than ours and does not
        # get here (S39, a late push of the base).
        if self.pending is not None and state.partition_epoch > self.pending.proposal.partition_epoch:
            if all(member.broker_id in state.isr for member in self.pending.proposal.isr):
                self._one_by_one = False
            self.pending = None
        self._arrange(now_ms)

    def on_refusal(self, result: IsrProposalResult, *, now_ms: int, refused_retry_ms: int) -> None:
        """Do not propose the ineligible member again for a while. The promise itself ends only with the newer
        state that every refusal brings."""
        pending = self.pending
        if pending is None or result.proposal_id != pending.proposal.proposal_id:
            return
        added = [m.broker_id for m in pending.proposal.isr if m.broker_id not in self.state.isr]
        if len(added) == 1:
            self._refused_until_ms[added[0]] = now_ms + refused_retry_ms
        else:  # it doesn't say which one: an ineligible follower must not keep the others out
            self._one_by_one = True

    def on_accepted(self, result: IsrProposalResult) -> bool:
        """Return whether the promise ended because the controller found the state to be as proposed, without
        a change. A newer state in the result was applied before, by on_state."""
        pending = self.pending
        if (
            pending is None
            or result.proposal_id != pending.proposal.proposal_id
            or result.state is None
            or result.state.partition_epoch != self.state.partition_epoch
            or result.state.leader_epoch != self.state.leader_epoch
            or set(self.state.isr) != {member.broker_id for member in pending.proposal.isr}
        ):
            return False
        self.pending = None  # the maximal ISR stays as it is
        return True

    def on_broker_changed(self, broker_id: int) -> None:
        follower = self._followers.get(broker_id)
        if follower is not None:
            newest = self.known_broker_epoch(follower)
            if newest > follower.broker_epoch >= 0:
                follower.forget(broker_epoch=BrokerEpoch(newest))

    # Proposals.

    def due_isr(
        self,
        *,
        now_ms: int,
        leader_end_offset: int,
        high_watermark: int,
        lag_ms_max: int,
        retry_ms: int,
        may_promise: bool,
    ) -> tuple[int, ...] | None:
        """Return the ISR to ask for now: that of the unanswered proposal if it has rested for retry_ms; if
        there is none and `may_promise`, the next one. None: there is nothing to ask for."""
        if self.pending is not None:
            if now_ms - self.pending.sent_ms < retry_ms:
                return None
            return tuple(member.broker_id for member in self.pending.proposal.isr)
        if not may_promise:
            return None
        return self.next_isr(
            now_ms=now_ms,
            leader_end_offset=leader_end_offset,
            high_watermark=high_watermark,
            lag_ms_max=lag_ms_max,
        )

    def propose(self, members: tuple[int, ...], *, now_ms: int) -> IsrProposal:
        """Return the proposal of what is due (`due_isr`), about to be sent: the unanswered one, unchanged, or
        a new one, which is a promise from here on."""
        if self.pending is not None:
            self.pending.sent_ms = now_ms
            return self.pending.proposal
        proposal = IsrProposal(
            topic_id=self.state.topic_id,
            partition=self.state.partition,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            proposal_id=next(self._next_proposal_id),
            isr=tuple(
                IsrMember(broker_id=r, broker_epoch=BrokerEpoch(self._member_epoch(r))) for r in members
            ),
            recovery=LeaderRecovery.RECOVERED,
        )
        self.pending = PendingProposal(proposal, now_ms)
        self._arrange(now_ms)
        return proposal

    def is_whole_at(self, leader_end_offset: int) -> bool:
        """Return whether every replica is in sync and has fetched up to this offset: then no proposal becomes
        due by time alone."""
        return (
            self.pending is None
            and not self.outsiders
            and self.state.recovery is LeaderRecovery.RECOVERED
            and all(follower.log_end_offset == leader_end_offset for follower in self.waited_for)
        )

    def next_isr(
        self, *, now_ms: int, leader_end_offset: int, high_watermark: int, lag_ms_max: int
    ) -> tuple[int, ...] | None:
        """Return the ISR to ask for on the committed state, in assignment order; None if no change is needed.

        A leader that was elected uncleanly first confirms its log, alone (KIP-704). Removals and additions go
        separately, removals first: a refused addition must not hold up a removal.
        """
        state = self.state
        if state.recovery is LeaderRecovery.RECOVERING:
            return (self._broker_id,)
        lagging = [
            follower.broker_id
            for follower in self.waited_for
            if follower.log_end_offset != leader_end_offset  # spares idle partitions the call
            and follower.is_lagging(leader_end_offset=leader_end_offset, now_ms=now_ms, lag_ms_max=lag_ms_max)
            and follower.broker_id in state.isr
        ]
        if lagging:
            return tuple(r for r in state.replicas if r in state.isr and r not in lagging)
        if not self.outsiders:
            return None
        joining = [
            follower.broker_id
            for follower in self.outsiders
            if now_ms >= self._refused_until_ms.get(follower.broker_id, NEVER_MS)
            and self.is_worth_proposing(
                follower,
                now_ms=now_ms,
                leader_end_offset=leader_end_offset,
                high_watermark=high_watermark,
                lag_ms_max=lag_ms_max,
            )
        ]
        if not joining:
            return None
        if self._one_by_one:
            del joining[1:]
        return tuple(r for r in state.replicas if r in state.isr or r in joining)

    def lags(
        self, *, now_ms: int, leader_end_offset: int, remaining_bytes: Callable[[int], int]
    ) -> tuple[FollowerLag, ...]:
        """Return the lag of each follower. remaining_bytes: the log's size from an offset on; called only for
        learners that have fetched."""
        return tuple(
            FollowerLag(
                broker_id=follower.broker_id,
                log_end_offset=follower.log_end_offset,
                lag_records=(
                    -1
                    if follower.log_end_offset == UNKNOWN_OFFSET
                    else leader_end_offset - follower.log_end_offset
                ),
                lag_ms=(
                    0
                    if follower.log_end_offset == leader_end_offset
                    else -1
                    if follower.last_caught_up_ms == NEVER_MS
                    else now_ms - follower.last_caught_up_ms
                ),
                remaining_bytes=(
                    remaining_bytes(follower.log_end_offset)
                    if follower.log_end_offset != UNKNOWN_OFFSET
                    and is_learner(self.state, follower.broker_id)
                    else -1
                ),
            )
            for follower in self._followers.values()
        )

    def _member_epoch(self, broker_id: int) -> int:
        """Return the broker epoch to propose. For a joining member it is that of its fetch (may_join saw it
        equal the registered one)."""
        follower = self._followers.get(broker_id)
        if follower is not None and follower.broker_epoch >= 0:
            return follower.broker_epoch
        endpoint = self._brokers.get(broker_id)
        return -1 if endpoint is None else endpoint.broker_epoch

    def _arrange(self, now_ms: int) -> None:
        """Follow the assignment: sort the followers into members and outsiders. A new member gets the full
        time before it counts as lagging, or it might have to leave as soon as it joined."""
        state = self.state
        known = self._followers
        self._followers = {
            r: known.get(r) or FollowerProgress(r) for r in state.replicas if r != self._broker_id
        }
        members = self.maximal_isr
        before = self.waited_for
        self.waited_for = tuple(f for f in self._followers.values() if f.broker_id in members)
        for follower in self.waited_for:
            if follower not in before:
                follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        self.outsiders = tuple(f for f in self._followers.values() if f.broker_id not in members)
