"""Operators' requests about brokers and leaders. Each changes all it names or nothing, except that preferred
leaders of many partitions are elected one by one. A dry run computes the same answer and writes nothing."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from controller.core.alarms import way_on
from controller.core.authorizer import check_admission
from controller.core.draft import Draft
from controller.core.election import can_lead_preferred, elect_preferred, eligible_ids, live_brokers, settle
from controller.core.events import (
    AdmitBrokers,
    BrokersAdmitted,
    ElectPreferred,
    ElectPreferredLeaders,
    ElectUnclean,
    LeadersElected,
    MemberRemoved,
    PartitionResult,
    PreferredLeadersElected,
    Refusal,
    RefusalCode,
    RemoveMember,
)
from controller.core.image import ClusterImage
from controller.core.isr import advance, with_unclean_leader
from controller.core.kept_topics import last_holder_of, vacate_kept_seats
from controller.core.loss import LossPreview
from controller.core.presence import Presence
from controller.core.records import Cause, Change, ClusterRecord, Member, MemberKind, RemoveMemberRecord
from controller.core.sessions import Sessions
from controller.core.topics import broker_facts, check_epoch, find_partition, operator_change
from controller.core.workers import check_named, workers_named, workers_of
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import NO_LEADER, PartitionState

_STILL_RUNNING_HINT = (
    "stop it first; where its host does not answer, it is presumed to run until it is fenced"
)


def admit_brokers(draft: Draft, sessions: Sessions, event: AdmitBrokers) -> BrokersAdmitted | Refusal:
    """Waiting brokers may hold data from now on. They are trusted once they have applied this."""
    image = draft.image
    for broker_id in event.broker_ids:
        if broker_id not in image.brokers and not workers_of(image, broker_id):
            return Refusal(
                code=RefusalCode.UNKNOWN_BROKER,
                field="broker_ids",
                detail=image.what_is(broker_id, "has not registered"),
                hint="start it and let it reach this controller, then admit it",
                facts=broker_facts(image),
            )
    workers = workers_named(image, event.broker_ids)
    refusal = check_named(image, event.broker_ids, "broker_ids") or check_admission(image, workers.values())
    if refusal is not None:
        return refusal
    change = operator_change(event, Cause.BROKER_ADMITTED)
    admitted = []
    for worker_id, worker in workers.items():
        registration = msgspec.structs.replace(worker, admitted=True)
        if not worker.admitted and not event.dry_run:
            draft.write_member(registration, change)
            sessions.require_applied(worker_id, image.sequence)
        admitted.append(registration)
    return BrokersAdmitted(brokers=tuple(admitted), dry_run=event.dry_run)


def remove_broker(
    draft: Draft, sessions: Sessions, event: RemoveMember, now_ms: int
) -> MemberRemoved | Refusal:
    """Forget a broker with all its workers, or one worker above 0, which a host with fewer does not start."""
    image = draft.image
    named = image.brokers.get(event.member_id)
    what, workers = f"broker {event.member_id}", workers_of(image, event.member_id)
    if named is not None and named.worker_number:
        what, workers = named.name, (named,)
    else:
        refusal = check_named(image, [event.member_id], "broker_id")
        if refusal is not None:
            return refusal
    replicas = sum(len(image.replicas_of.get(worker.broker_id, {})) for worker in workers)
    if replicas:
        return Refusal(
            code=RefusalCode.BROKER_IN_USE,
            field="broker_id",
            detail=f"{what} is assigned {replicas} replicas",
            hint="move its replicas away first",
            facts={"replicas": replicas},
        )
    kept = last_holder_of(image, [worker.broker_id for worker in workers])
    if kept is not None:
        return Refusal(
            code=RefusalCode.BROKER_IN_USE,
            field="broker_id",
            detail=f"{what} has the last whole copy of the deleted topic {kept.topic!r}, which is kept",
            hint=f"restore it and move its replicas, or purge it: `springtide topics purge {kept.topic_id}`",
        )
    return remove_members(draft, sessions, event, workers, now_ms)


def remove_members(
    draft: Draft, sessions: Presence, event: RemoveMember, members: Collection[Member], now_ms: int
) -> MemberRemoved | Refusal:
    """Forget members of one kind, unless one of them may be running."""
    for member in members:
        if (member.admitted and not member.fenced) or sessions.is_valid(member.member_id, now_ms):
            return Refusal(
                code=RefusalCode(f"{member.kind}_in_use"),
                field=f"{member.kind}_id",
                detail=f"{member.name} is still running",
                hint=_STILL_RUNNING_HINT,
            )
    if not event.dry_run:
        change = operator_change(event, Cause(f"{sessions.KIND}_removed"))
        for member in members:
            if member.kind is MemberKind.BROKER:
                vacate_kept_seats(draft, member.member_id, change)
            _keep_epoch(draft, member.epoch, change)
            draft.write(RemoveMemberRecord(kind=member.kind, member_id=member.member_id, change=change))
            sessions.forget(draft, member.member_id)
    return MemberRemoved(member_id=event.member_id, dry_run=event.dry_run)


def _keep_epoch(draft: Draft, epoch: BrokerEpoch, change: Change) -> None:
    """Keep the highest epoch where the row that holds it is about to go, so that it is never reused."""
    image = draft.image
    if epoch == image.last_broker_epoch:
        draft.write(
            ClusterRecord(
                cluster_id=image.cluster_id,
                configs=image.configs,
                last_broker_epoch=image.last_broker_epoch,
                change=change,
            )
        )


def elect_by_operator(
    draft: Draft, event: ElectPreferred | ElectUnclean, loss: LossPreview | None = None
) -> LeadersElected | Refusal:
    """Elect the leader that an operator chose. loss: what an unclean election would lose, by the partition as
    it is now."""
    state = find_partition(draft.image, event.topic_id, event.partition)
    if isinstance(state, Refusal):
        return state
    if isinstance(event, ElectPreferred):
        return _elect_preferred(draft, event, state)
    return _elect_unclean(draft, event, state, loss)


def elect_preferred_leaders(draft: Draft, event: ElectPreferredLeaders) -> PreferredLeadersElected:
    """One by one; a partition that is named twice is refused the second time, as it is led by then."""
    results = []
    state: PartitionState | None
    refusal: Refusal | None
    for topic_id, partition in event.partitions:
        single = ElectPreferred(
            wall_ms=event.wall_ms,
            actor=event.actor,
            reason=event.reason,
            request_id=event.request_id,
            operation_id=event.operation_id,
            dry_run=event.dry_run,
            topic_id=topic_id,
            partition=partition,
        )
        reply = elect_by_operator(draft, single)
        if isinstance(reply, Refusal):
            state, refusal = draft.image.partitions.get((topic_id, partition)), reply
        else:
            state, refusal = reply.partitions[0], None
        results.append(PartitionResult(topic_id=topic_id, partition=partition, state=state, refusal=refusal))
    return PreferredLeadersElected(results=tuple(results), dry_run=event.dry_run)


def _elect_preferred(draft: Draft, event: ElectPreferred, state: PartitionState) -> LeadersElected | Refusal:
    image = draft.image
    preferred = state.preferred_leader
    if state.leader == preferred:
        return Refusal(
            code=RefusalCode.ELECTION_NOT_NEEDED,
            detail=f"broker {preferred} leads already",
            field="partition",
        )
    if not can_lead_preferred(image, state):
        why = "is not in sync and live"
        if state.is_reassigning:
            why = "may change: the partition's replicas are being moved"
        elif preferred in image.demoted:
            why = "is demoted: it leads only what no other broker may"
        return Refusal(
            code=RefusalCode.INELIGIBLE_BROKER,
            field="partition",
            detail=f"broker {preferred} {why}",
            hint=way_on(state),
        )
    if event.dry_run:
        after = advance(state, isr=state.isr, leader=preferred)
        assert after is not None
        return LeadersElected(partitions=(after,), dry_run=True)
    elect_preferred(
        draft, (state.topic_id, state.partition), operator_change(event, Cause.PREFERRED_LEADER_ELECTED)
    )
    return LeadersElected(partitions=(image.partitions[state.topic_id, state.partition],))


def _elect_unclean(
    draft: Draft, event: ElectUnclean, state: PartitionState, loss: LossPreview | None
) -> LeadersElected | Refusal:
    """3.5 (unclean election). Refused while a leader exists, when the partition has changed since the
    operator looked, for a broker that could not carry it out, and when it costs more than was accepted."""
    image = draft.image
    changed = check_epoch(state, event.partition_epoch)
    if changed is not None:
        return changed
    if state.leader != NO_LEADER:
        return Refusal(
            code=RefusalCode.ELECTION_NOT_NEEDED,
            field="partition",
            detail=f"broker {state.leader} leads",
        )
    if event.broker_id not in state.replicas or not image.is_eligible(event.broker_id):
        return Refusal(
            code=RefusalCode.INELIGIBLE_BROKER,
            field="broker_id",
            detail=f"broker {event.broker_id} is not a live replica of this partition",
        )
    # If a clean election is possible after all, nothing need be lost.
    after = settle(
        state,
        live=live_brokers(image),
        eligible=eligible_ids(image),
        demoted=image.demoted,
        unproven=draft.unproven(state),
    )
    cause = Cause.LEADER_ELECTED
    if after is not None and after.leader != NO_LEADER:
        loss = None
    else:
        refusal = _check_loss(event, image, loss)
        if refusal is not None:
            return refusal
        after = with_unclean_leader(state, event.broker_id)
        cause = Cause.UNCLEAN_LEADER_ELECTED
    if not event.dry_run:
        draft.write_partition(after, operator_change(event, cause))
    return LeadersElected(partitions=(after,), loss=loss, dry_run=event.dry_run)


def _check_loss(event: ElectUnclean, image: ClusterImage, loss: LossPreview | None) -> Refusal | None:
    """Refuse if what replicas told of their logs exceeds the loss that was accepted. A replica that is down
    can't be waited for: that is what the operator decides."""
    limit = event.lost_records_max
    if limit is None or loss is None:
        return None
    silent = [broker_id for broker_id in loss.unheard if image.is_eligible(broker_id)]
    chosen = loss.candidate(event.broker_id)
    if silent or chosen is None or chosen.lost_records is None:
        return Refusal(
            code=RefusalCode.LOSS_UNKNOWN,
            field="lost_records_max",
            detail=f"live replicas that have not yet reported the ends of their logs: {silent}",
            hint="they do within a second of losing their leader: look again",
        )
    if chosen.lost_records > limit:
        return Refusal(
            code=RefusalCode.LOSS_TOO_LARGE,
            field="lost_records_max",
            limit=limit,
            detail=f"{chosen.lost_records} records would be lost; at most {limit} were accepted",
            hint="choose the replica that loses least, or accept more",
            facts={"lost_records": chosen.lost_records, "lost_committed": chosen.lost_committed or 0},
        )
    return None
