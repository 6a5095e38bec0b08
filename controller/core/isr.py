"""The in-sync set: how a partition's state moves on, and what a leader may propose.

Every change of a partition goes through `advance`, which keeps what belongs together together: ISR, ELR and
what remains of excluded members change at once, under one higher partition epoch (I6, partition epochs order
everything; I12, the ELR changes only with the ISR), and the leader epoch rises exactly when the leader
changes (2.8, applying batches). The controller has no knowledge of logs, so nothing here adds a member to an
ISR but a leader's accepted proposal (I10, only leaders expand the ISR); election from the ELR is in
election.py, and creation in topics.py.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from controller.core.assignment import completed, next_epoch
from controller.core.draft import Draft, actor_of
from controller.core.image import ClusterImage
from controller.core.records import Cause
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposal, IsrProposalResult
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery, PartitionState

NOBODY = -1


def advance(
    state: PartitionState,
    *,
    isr: tuple[int, ...],
    leader: int,
    excluded: int = NOBODY,
    confirmed: Collection[int] = (),
    recovery: LeaderRecovery | None = None,
) -> PartitionState | None:
    """The state after a change of ISR, leader or both; None when nothing changes.

    isr: the new in-sync set, in assignment order. excluded: a broker that can't vouch for its log; it leaves
    the ELR too and is remembered in last_known_elr. confirmed: members of new_replicas known to have a log.
    A member that leaves an ISR which falls below the minimum joins the ELR: it holds every committed record,
    because the high watermark is frozen there (KIP-966); I1 (candidates are complete) and I12 (the ELR
    changes only with the ISR) rest on that freeze.
    """
    if recovery is None:
        recovery = state.recovery
    new_replicas = state.new_replicas
    if new_replicas and (confirmed or excluded in new_replicas):
        new_replicas = tuple(b for b in new_replicas if b not in confirmed and b != excluded)
    if (
        isr == state.isr
        and leader == state.leader
        and recovery is state.recovery
        and new_replicas == state.new_replicas
        and excluded not in state.elr
    ):
        return None
    if len(isr) >= state.min_insync_replicas:
        elr: tuple[int, ...] = ()
        last_known_elr: tuple[int, ...] = ()
    else:
        old_isr, old_elr = state.isr, state.elr
        elr = tuple(
            b for b in state.replicas if (b in old_isr or b in old_elr) and b not in isr and b != excluded
        )
        last_known_elr = state.last_known_elr
        if excluded in old_isr or excluded in old_elr:
            last_known_elr = tuple(
                b for b in state.replicas if (b in last_known_elr or b == excluded) and b not in isr
            )
        elif last_known_elr:
            last_known_elr = tuple(b for b in last_known_elr if b not in isr)
    if leader != NO_LEADER:
        last_known_leader = NO_LEADER
    elif state.leader != NO_LEADER:
        last_known_leader = state.leader
    else:
        last_known_leader = state.last_known_leader
    return msgspec.structs.replace(
        state,
        new_replicas=new_replicas,
        leader=leader,
        leader_epoch=state.leader_epoch + (leader != state.leader),
        partition_epoch=state.partition_epoch + 1,
        isr=isr,
        elr=elr,
        last_known_elr=last_known_elr,
        last_known_leader=last_known_leader,
        recovery=recovery,
    )


def on_proposal(draft: Draft, broker_id: int, proposal: IsrProposal) -> IsrProposalResult:
    """A leader's promise or request (docs/replication.md 2.4, what is checked in a proposal). The sender's
    broker epoch was checked before. The result carries the current state whenever it is known."""
    key = (proposal.topic_id, proposal.partition)
    image = draft.image
    state = image.partitions.get(key)
    topic = image.topics.get(proposal.topic_id)
    if topic is None or topic.deleting:
        # No ISR changes on a topic that is being deleted; for the leader it has ceased to exist.
        error = ControllerError.UNKNOWN_TOPIC_ID
    elif state is None:
        error = ControllerError.UNKNOWN_TOPIC_OR_PARTITION
    else:
        error = check_proposal(image, state, broker_id, proposal)
        if error is ControllerError.NONE and not _is_already_so(state, proposal):
            _accept(draft, state, broker_id, proposal)
            state = image.partitions[key]
            if state.leader != broker_id:
                error = ControllerError.NEW_LEADER_ELECTED
        elif error is ControllerError.INELIGIBLE_REPLICA:
            # The leader will stop waiting for the member it promised. A copy of this proposal that the
            # network still holds must then never be accepted, not even by the next controller, or a replica
            # that the leader did not wait for might be elected (I2, the leader is never laxer). A new
            # partition epoch makes it stale.
            state = msgspec.structs.replace(state, partition_epoch=state.partition_epoch + 1)
            draft.write_partition(state, draft.change(Cause.ISR_CHANGE_REFUSED, actor=actor_of(broker_id)))
    return IsrProposalResult(
        topic_id=proposal.topic_id,
        partition=proposal.partition,
        proposal_id=proposal.proposal_id,
        error=error,
        state=state,
    )


def check_proposal(
    image: ClusterImage, state: PartitionState, broker_id: int, proposal: IsrProposal
) -> ControllerError:
    """The checks of 2.4 (what is checked in a proposal), whose order matters; NONE: accept, or already so."""
    if (
        proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch
    ):  # I am the one behind: never "fenced", or the leader waits for an epoch that never comes (KAFKA-14154)
        return ControllerError.NOT_CONTROLLER
    if proposal.leader_epoch < state.leader_epoch:
        return ControllerError.FENCED_LEADER_EPOCH
    if broker_id != state.leader:
        return ControllerError.INVALID_REQUEST
    if _is_already_so(state, proposal):  # the answer was lost (KAFKA-14144): before the version is judged
        return ControllerError.NONE
    if proposal.partition_epoch < state.partition_epoch:
        return ControllerError.INVALID_UPDATE_VERSION
    members = [member.broker_id for member in proposal.isr]
    if (
        len(set(members)) != len(members)
        or broker_id not in members
        or not set(members) <= set(state.replicas)
    ):
        return ControllerError.INVALID_REQUEST
    if proposal.recovery is LeaderRecovery.UNKNOWN:
        return ControllerError.INVALID_REQUEST
    if proposal.recovery is LeaderRecovery.RECOVERING and (
        len(members) > 1 or state.recovery is LeaderRecovery.RECOVERED
    ):
        return ControllerError.INVALID_REQUEST
    for member in proposal.isr:
        if not is_eligible_member(image, state, member.broker_id, member.broker_epoch):
            return ControllerError.INELIGIBLE_REPLICA
    return ControllerError.NONE


def is_eligible_member(
    image: ClusterImage, state: PartitionState, broker_id: int, broker_epoch: BrokerEpoch
) -> bool:
    """Registered, unfenced, not shutting down, of the incarnation that qualified (KIP-841, KIP-903).

    A member that stays may be shutting down: the last in-sync leader must be able to let others in before
    it goes. It may be named without an epoch (-1), since it needed none to stay; one that joins may not.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or not broker.admitted:
        return False
    if broker_id in state.isr:
        return broker_epoch in (-1, broker.broker_epoch)
    return not broker.shutting_down and broker_epoch == broker.broker_epoch


def _is_already_so(state: PartitionState, proposal: IsrProposal) -> bool:
    return (
        len(proposal.isr) == len(state.isr)
        and proposal.recovery is state.recovery
        and {member.broker_id for member in proposal.isr} == set(state.isr)
    )


def _accept(draft: Draft, state: PartitionState, broker_id: int, proposal: IsrProposal) -> None:
    proposed = {member.broker_id for member in proposal.isr}
    members = tuple(b for b in state.replicas if b in proposed)
    if not set(members) <= set(state.isr):
        cause = Cause.ISR_EXPANDED
    elif len(members) < len(state.isr):
        cause = Cause.ISR_SHRUNK
    else:
        cause = Cause.LEADER_RECOVERED
    # A replica that joins has fetched, so its log exists: from now on its absence is a loss, not a beginning.
    joined = tuple(b for b in members if b not in state.isr)
    after = advance(state, isr=members, leader=broker_id, confirmed=joined, recovery=proposal.recovery)
    assert after is not None
    # With the last target in the ISR a reassignment is complete, in this very write (4.2, reassignment):
    # there is no moment in which the controller could die and leave it half done.
    done = completed(draft.image, after)
    if done is not None:
        after, cause = next_epoch(state, done), Cause.REASSIGNMENT_COMPLETED
    draft.write_partition(after, draft.change(cause, actor=actor_of(broker_id)))


def with_unclean_leader(state: PartitionState, broker_id: int) -> PartitionState:
    """3.5 (unclean election): the chosen log becomes the truth. ISR is the leader alone, no other replica is
    eligible any more, the leader must confirm its log (KIP-704), and followers may cut below their high
    watermark under the mark that `unclean_leader_epoch` is (I15, no cut below the high watermark without a
    mark)."""
    leader_epoch = state.leader_epoch + 1
    return msgspec.structs.replace(
        state,
        leader=broker_id,
        leader_epoch=leader_epoch,
        partition_epoch=state.partition_epoch + 1,
        isr=(broker_id,),
        elr=(),
        last_known_elr=(),
        last_known_leader=NO_LEADER,
        recovery=LeaderRecovery.RECOVERING,
        unclean_leader_epoch=leader_epoch,
        high_watermark_floor=0,
        # Its log, such as it is, is the partition from here on: it must not be created again if it vanishes.
        new_replicas=tuple(b for b in state.new_replicas if b != broker_id),
    )
