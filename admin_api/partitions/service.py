"""Showing partitions, and electing leaders by hand."""

from __future__ import annotations

from dataclasses import replace

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.views import accepted
from admin_api.partitions.loss import loss_sentence, loss_view
from admin_api.partitions.models import (
    ElectionPlan,
    ElectLeader,
    ElectPreferredLeader,
    ElectUncleanLeader,
    FollowerView,
    PartitionView,
)
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.topics.service import find_topic
from admin_api.views import LastChange
from admin_api.writes import Attempt, refusal_problem
from controller.contract.lag_report import PartitionLag
from controller.contract.partition_state import NO_EPOCH, NO_LEADER, LeaderRecovery, PartitionState
from controller.core.events import ElectPreferred, ElectUnclean, LeadersElected, Refusal
from controller.database.rows import OperationRow
from controller.operations.advance import finished_election
from controller.operations.model import LeaderElection, OperationState, encode_work
from controller.shell.engine_port import EnginePort
from controller.shell.published import Published


def find_partition(view: Published, cluster: str, topic: str, number: int) -> PartitionState:
    state = view.image.partitions.get((find_topic(view, cluster, topic).topic_id, number))
    if state is None:
        raise ProblemError("partition_not_found", f"topic {topic!r} has no partition {number}")
    return state


def version_of(state: PartitionState) -> str:
    """Return the partition's version, which is never that of a partition of an earlier topic of the same
    name."""
    return f"{state.topic_id}-{state.partition_epoch}"


def show_partition(engine: EnginePort, cluster: str, view: Published, state: PartitionState) -> PartitionView:
    key = (state.topic_id, state.partition)
    change = view.partition_changes.get(key)
    why = engine.explain(cluster, key)
    return partition_view(state, lag=engine.lag(cluster, key), why=why, last_change=LastChange.of(change))


def partition_view(
    state: PartitionState,
    *,
    lag: PartitionLag | None,
    why: str | None,
    last_change: LastChange | None,
) -> PartitionView:
    # A report under an earlier leadership describes another leader's log.
    if lag is not None and lag.leader_epoch != state.leader_epoch:
        lag = None
    return PartitionView(
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        state=state_word(state),
        leader=None if state.leader == NO_LEADER else state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        preferred_leader=state.preferred_leader,
        replicas=list(state.replicas),
        isr=list(state.isr),
        elr=list(state.elr),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
        min_insync_replicas=state.min_insync_replicas,
        last_known_leader=None if state.last_known_leader == NO_LEADER else state.last_known_leader,
        last_known_elr=list(state.last_known_elr),
        unclean_leader_epoch=None if state.unclean_leader_epoch == NO_EPOCH else state.unclean_leader_epoch,
        log_start_offset=None if lag is None else lag.log_start_offset,
        log_end_offset=None if lag is None else lag.log_end_offset,
        high_watermark=None if lag is None else lag.high_watermark,
        size_bytes=None if lag is None else lag.size_bytes,
        followers=_followers(state, lag),
        why=why,
        last_change=last_change,
    )


def state_word(state: PartitionState) -> str:
    """Return the worst state that applies to the partition."""
    if state.leader == NO_LEADER:
        return "leaderless"
    if state.recovery is LeaderRecovery.RECOVERING:
        return "recovering"
    if len(state.isr) < state.min_insync_replicas:
        return "under_min_isr"
    if len(state.isr) < state.replication_factor:
        return "under_replicated"
    if state.leader in state.new_replicas:
        return "creating"
    return "online"


def _followers(state: PartitionState, lag: PartitionLag | None) -> list[FollowerView]:
    return [
        FollowerView(
            broker_id=follower.broker_id,
            in_sync=follower.broker_id in state.isr,
            log_end_offset=None if follower.log_end_offset < 0 else follower.log_end_offset,
            lag_records=follower.lag_records,
            lag_ms=follower.lag_ms,
        )
        for follower in (() if lag is None else lag.followers)
    ]


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
    condition: Condition,
) -> Answer:
    """Elect the leader and answer 202 with an operation that is already finished: elections take one
    write."""
    engine = services.engine
    state = find_partition(engine.image(cluster), cluster, topic, number)
    decided = engine.decided(cluster).partitions.get((state.topic_id, number))
    condition.check(
        None if decided is None else version_of(decided), what=f"partition {number} of topic {topic!r}"
    )
    event: ElectPreferred | ElectUnclean
    if isinstance(body, ElectPreferredLeader):
        event = ElectPreferred(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=None if attempt.dry_run else attempt.operation_id,
            dry_run=attempt.dry_run,
            topic_id=state.topic_id,
            partition=number,
        )
    else:
        event = ElectUnclean(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=None if attempt.dry_run else attempt.operation_id,
            dry_run=attempt.dry_run,
            topic_id=state.topic_id,
            partition=number,
            broker_id=body.broker_id,
            partition_epoch=body.partition_epoch,
            lost_records_max=body.lost_records_max,
        )
    reply = await engine.submit(cluster, event)
    match reply:
        case LeadersElected(partitions=(elected,), loss=loss):
            pass
        case Refusal() as refusal:
            raise refusal_problem(refusal)
        case _:
            raise AssertionError(f"unexpected answer to an election: {reply!r}")
    if attempt.dry_run:
        return Answer.of(
            200,
            ElectionPlan(
                partition=partition_view(elected, lag=None, why=None, last_change=None),
                loss=None if loss is None else loss_view(engine, cluster, decided or state, loss),
            ),
        )
    consequences = None if loss is None else loss_sentence(loss, elected.leader)
    spec = LeaderElection(
        topic=topic,
        partition=number,
        election=body.election,
        leader=elected.leader,
        leader_epoch=elected.leader_epoch,
    )
    row = OperationRow(
        id=attempt.operation_id,
        kind="leader_election",
        cluster=cluster,
        state=OperationState.SUCCEEDED.value,
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
        created_at_ms=attempt.wall_ms,
        started_at_ms=attempt.wall_ms,
        finished_at_ms=services.clock.now_wall_ms(),
        deadline_at_ms=attempt.wall_ms + services.settings.preflight_deadline_ms,
        body=encode_work(finished_election(spec, consequences)),
    )
    await services.operations.follow(row)
    answer = accepted(row, retry_after_s=services.settings.retry_after_s)
    return replace(answer, detail=consequences)
