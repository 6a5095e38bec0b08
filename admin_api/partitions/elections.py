"""Elections of leaders by hand: one partition's leader, the preferred leaders of many, and the loss of an
unclean election as operators see it: on demand, in a dry run, in the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from admin_api.http.answers import Answer
from admin_api.http.conditions import Precondition
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, follow, submit
from admin_api.operations.models import RefusedView
from admin_api.partitions.models import (
    CandidateLossView,
    ElectedView,
    ElectionPlan,
    ElectLeader,
    ElectPreferredLeader,
    ElectUncleanLeader,
    LossPreviewView,
    PreferredElectionPlan,
    RestorePreferredLeaders,
)
from admin_api.partitions.service import decided_partition, partition_view
from admin_api.topics.service import find_topic
from controller.face.cluster import CandidateLoss, KnownCluster, LossPreview, explain_replicas
from controller.face.commands import (
    ElectPreferred,
    ElectPreferredLeaders,
    ElectUnclean,
    LeadersElected,
    PartitionResult,
    PreferredLeadersElected,
    RefusalCode,
)
from controller.face.operations import (
    REFUSED_SHOWN,
    LeaderElection,
    OperationError,
    OperationState,
    OperationStep,
    PreferredElection,
    Refused,
    StepState,
    Work,
    finished_election,
)
from springtide.contract.epochs import PartitionEpoch
from springtide.contract.partition_state import (
    NO_LEADER,
    PartitionKey,
    PartitionState,
)


def find_loss(view: KnownCluster, state: PartitionState) -> LossPreviewView:
    """Return the loss. Raise election_not_needed if the partition has a leader, replica_quarantined if one
    keeps records that the leader may lack, and what `loss_preview` raises."""
    key = (state.topic_id, state.partition)
    found = view.loss_preview(key)
    decided = view.decided.partitions.get(key, state)
    if found is None:
        way_out = view.way_out(key, None)
        if way_out is not None:
            raise ProblemError("replica_quarantined", way_out)
        raise ProblemError("election_not_needed", f"broker {decided.leader} leads: nothing has to be lost")
    return loss_view(view, decided, found)


def loss_view(view: KnownCluster, state: PartitionState, found: LossPreview) -> LossPreviewView:
    """Return the view of the loss. state: the partition without a leader."""
    verdicts = {v.broker_id: v for v in explain_replicas(view.decided, state)}
    least = found.least
    return LossPreviewView.of(
        found,
        topic=state.topic,
        partition=state.partition,
        last_leader=None if found.last_leader == NO_LEADER else found.last_leader,
        last_log_end_offset=_known(found.last_log_end_offset),
        last_high_watermark=_known(found.last_high_watermark),
        known_committed=found.known_committed,
        way_out=view.way_out((state.topic_id, state.partition), found),
        least=None if least is None else least.broker_id,
        candidates=[
            _candidate_view(one, verdicts[one.broker_id].standing, verdicts[one.broker_id].broker_status)
            for one in found.candidates
            if one.broker_id in verdicts
        ],
    )


def _candidate_view(found: CandidateLoss, standing: str, broker_status: str) -> CandidateLossView:
    log = found.log
    return CandidateLossView.of(
        found,
        standing=standing,
        broker_status=broker_status,
        last_leader_epoch=None if log is None else _known(log.latest_epoch),
        log_start_offset=None if log is None else log.log_start_offset,
        log_end_offset=None if log is None else log.log_end_offset,
        high_watermark=None if log is None else log.high_watermark,
        held_elsewhere=found.held,
    )


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset


def loss_sentence(found: LossPreview, chosen: int) -> str:
    """Return a sentence for the operation and the audit: what was known when the leader was chosen."""
    candidate = found.candidate(chosen)
    if candidate is None or candidate.lost_records is None:
        said = f"how much is lost is not known: broker {chosen} had not reported the end of its log"
    elif candidate.lost_records == 0:
        said = "no record is known to be lost"
    else:
        said = (
            f"{candidate.lost_records} records are lost as far as is known, "
            f"{candidate.lost_committed} of them acknowledged with acks=all"
        )
    if found.unheard:
        silent = ", ".join(str(broker_id) for broker_id in found.unheard)
        said += f"; replicas that had not reported the ends of their logs: {silent}"
    return said


def brokers_named(body: ElectLeader) -> tuple[int, ...]:
    return (body.broker_id,) if isinstance(body, ElectUncleanLeader) else ()


async def elect_leader(
    services: Services,
    cluster: str,
    topic: str,
    number: int,
    attempt: Attempt,
    *,
    body: ElectLeader,
    condition: Precondition,
) -> Answer:
    """Elect the leader and answer 202 with an operation that is already finished: elections take one
    write."""
    engine = services.engine
    state = decided_partition(engine, cluster, topic, number, condition)
    event: ElectPreferred | ElectUnclean
    if isinstance(body, ElectPreferredLeader):
        event = ElectPreferred(**attempt.operation_event, topic_id=state.topic_id, partition=number)
    else:
        event = ElectUnclean(
            **attempt.operation_event,
            topic_id=state.topic_id,
            partition=number,
            broker_id=body.broker_id,
            partition_epoch=PartitionEpoch(body.partition_epoch),
            lost_records_max=body.lost_records_max,
        )
    reply = await submit(engine, cluster, event, LeadersElected)
    (elected,), loss = reply.partitions, reply.loss
    if attempt.dry_run:
        plan = ElectionPlan(
            partition=partition_view(elected, lag=None, why=None, last_change=None),
            loss=None if loss is None else loss_view(engine.cluster(cluster), state, loss),
        )
        return Answer.of(200, plan)
    consequences = None if loss is None else loss_sentence(loss, elected.leader)
    spec = LeaderElection(
        topic=topic,
        partition=number,
        election=body.election,
        leader=elected.leader,
        leader_epoch=elected.leader_epoch,
    )
    work = finished_election(spec, consequences)
    answer = await follow(services, cluster, attempt, work, OperationState.SUCCEEDED)
    return replace(answer, detail=consequences)


async def elect_preferred_leaders(
    services: Services, cluster: str, attempt: Attempt, *, body: RestorePreferredLeaders
) -> Answer:
    """Elect the leaders and answer 202 with an operation that has ended. It has failed if some preferred
    replica could not lead. A partition that already has its preferred leader is not a failure."""
    keys, refused = _chosen(services.engine.cluster(cluster), cluster, body)
    answer, _ = await elect_each(services, cluster, attempt, keys=keys, refused=refused)
    return answer


async def elect_each(
    services: Services,
    cluster: str,
    attempt: Attempt,
    *,
    keys: Sequence[PartitionKey],
    refused: list[Refused],
) -> tuple[Answer, tuple[PartitionResult, ...]]:
    """Elect the leaders of these partitions and return the answer and each one's result. refused: partitions
    that were also named and do not exist."""
    engine = services.engine
    view = engine.cluster(cluster)
    event = ElectPreferredLeaders(**attempt.operation_event, partitions=tuple(keys))
    reply = await submit(engine, cluster, event, PreferredLeadersElected)
    elected: list[PartitionState] = []
    for result in reply.results:
        if result.refusal is None:
            assert result.state is not None
            elected.append(result.state)
        elif result.refusal.code is not RefusalCode.ELECTION_NOT_NEEDED:
            topic = view.image.topics[result.topic_id].topic
            code, detail = result.refusal.code.value, result.refusal.detail
            refused.append(Refused(topic=topic, partition=result.partition, code=code, detail=detail))
    if attempt.dry_run:
        return _plan(elected, refused), reply.results
    state = OperationState.FAILED if refused else OperationState.SUCCEEDED
    work = _finished(len(elected), refused)
    return await follow(services, cluster, attempt, work, state), reply.results


def _chosen(
    view: KnownCluster, cluster: str, body: RestorePreferredLeaders
) -> tuple[list[PartitionKey], list[Refused]]:
    """Return the partitions to elect leaders for, and the named partitions that do not exist."""
    if body.topics is not None and body.partitions is not None:
        field = FieldProblem(pointer="/partitions", message="can't be given together with topics")
        raise ProblemError("invalid_request", f"partitions: {field.message}", errors=(field,))
    image = view.image
    if body.partitions is None:
        if body.topics is None:
            return sorted(image.not_preferred), []
        ids = {find_topic(view, cluster, name).topic_id for name in body.topics}
        return sorted(key for key in image.not_preferred if key[0] in ids), []
    keys: dict[PartitionKey, None] = {}
    refused: list[Refused] = []
    for named in body.partitions:
        topic = image.topic_named(named.topic)
        if topic is None or named.partition >= topic.partitions:
            code = "topic_not_found" if topic is None else "partition_not_found"
            detail = f"there is no partition {named.topic}-{named.partition}"
            refused.append(Refused(topic=named.topic, partition=named.partition, code=code, detail=detail))
        else:
            keys[topic.topic_id, named.partition] = None
    return list(keys), refused


def _finished(elected: int, refused: Sequence[Refused]) -> Work:
    step = OperationStep(name="elect", state=StepState.FAILED if refused else StepState.SUCCEEDED)
    work = Work(
        spec=PreferredElection(elected=elected, refused=len(refused)),
        steps=(step,),
        refused=tuple(refused[:REFUSED_SHOWN]),
        summary=f"{elected} partitions have their preferred leader back"
        if elected
        else "no leader was elected",
    )
    if not refused:
        return work
    first = refused[0]
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    detail = f"{len(refused)} were refused: {first.topic}-{first.partition}: {first.detail}{more}"
    return msgspec.structs.replace(work, error=OperationError(code="elections_refused", detail=detail))


def _plan(elected: Sequence[PartitionState], refused: Sequence[Refused]) -> Answer:
    plan = PreferredElectionPlan(
        elected=[ElectedView.of(state) for state in elected[:REFUSED_SHOWN]],
        refused=[RefusedView.of(item) for item in refused[:REFUSED_SHOWN]],
    )
    return Answer.of(200, plan)
