"""Showing, beginning and cancelling reassignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from admin_api.http.answers import Answer
from admin_api.http.conditions import Precondition
from admin_api.http.problems import refusal_problem
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, check_is_planned, follow, submit
from admin_api.operations.models import eta_view
from admin_api.partitions.service import decided_partition, partition_view
from admin_api.reassignments.models import (
    AssignReplicas,
    BlockedReasonView,
    ReassignmentPlan,
    ReassignmentView,
    TargetView,
)
from controller.face.cluster import Engine, ReassignmentProgress
from controller.face.commands import (
    AlterReassignments,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentTarget,
)
from controller.face.operations import (
    REFUSED_SHOWN,
    OperationState,
    Reassignment,
    ReassignmentCancel,
    ReassignmentMove,
    Refused,
    advance_reassignment,
    begin_reassignment,
    finished_cancel,
)
from springtide.contract.partition_state import PartitionKey, PartitionState


async def assign(
    services: Services,
    cluster: str,
    topic: str,
    number: int,
    attempt: Attempt,
    *,
    body: AssignReplicas,
    condition: Precondition,
) -> Answer:
    """Begin the reassignment and answer 202 with an operation. It ends when the partition has arrived, or was
    sent back or elsewhere."""
    if not attempt.dry_run:
        check_is_planned(services.engine, cluster)
    before, after = await _alter(
        services,
        cluster,
        topic,
        number,
        attempt,
        replicas=tuple(body.replicas),
        throttled_rate=body.throttle_bytes_per_s,
        condition=condition,
    )
    if attempt.dry_run:
        return _plan(services.engine, cluster, before, after)
    return await _follow(services, cluster, attempt, [_move(before, tuple(body.replicas))])


async def assign_each(
    services: Services, cluster: str, attempt: Attempt, *, targets: Sequence[ReassignmentTarget]
) -> tuple[PartitionResult, ...]:
    """Assign many partitions at once, as Kafka's tools ask. Each is carried out or refused alone, and one
    operation follows those that were not refused. A target without replicas is a cancellation. No operation
    follows it; the operation that followed the reassignment ends."""
    engine = services.engine
    before = {
        (target.topic_id, target.partition): engine.cluster(cluster).decided.partitions.get(
            (target.topic_id, target.partition)
        )
        for target in targets
    }
    moving = any(target.replicas is not None for target in targets)
    if moving:
        check_is_planned(engine, cluster)
    event = AlterReassignments(
        **attempt.event, operation_id=attempt.operation_id if moving else None, targets=tuple(targets)
    )
    reply = await submit(engine, cluster, event, ReassignmentsAltered)
    moves: list[ReassignmentMove] = []
    refused: list[Refused] = []
    for target, result in zip(targets, reply.results, strict=True):
        state = before[target.topic_id, target.partition]
        if state is None or target.replicas is None:
            continue
        if result.refusal is not None:
            code, detail = result.refusal.code.value, result.refusal.detail
            refused.append(Refused(topic=state.topic, partition=state.partition, code=code, detail=detail))
            continue
        moves.append(_move(state, target.replicas))
    if moves:
        await _follow(services, cluster, attempt, moves, refused)
    return reply.results


def _move(state: PartitionState, replicas: tuple[int, ...]) -> ReassignmentMove:
    return ReassignmentMove(
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        original=state.original_replicas or state.replicas,
        replicas=replicas,
    )


async def _follow(
    services: Services,
    cluster: str,
    attempt: Attempt,
    moves: Sequence[ReassignmentMove],
    refused: Sequence[Refused] = (),
) -> Answer:
    """Answer 202 with the operation that follows the moves."""
    spec = Reassignment(moves=tuple(moves))
    image = services.engine.cluster(cluster).image
    # A new order, or fewer replicas, is already complete.
    step = advance_reassignment(begin_reassignment(spec), spec, OperationState.RUNNING, image, {})
    work = msgspec.structs.replace(step.work, refused=tuple(refused[:REFUSED_SHOWN]))
    return await follow(services, cluster, attempt, work, step.state)


async def cancel(
    services: Services, cluster: str, topic: str, number: int, attempt: Attempt, *, condition: Precondition
) -> Answer:
    """Cancel the reassignment and answer 202 with an operation that has ended: one write restores the
    original replicas, which all still exist. The operation that followed the reassignment ends, too."""
    before, after = await _alter(
        services, cluster, topic, number, attempt, replicas=None, condition=condition
    )
    if attempt.dry_run:
        return _plan(services.engine, cluster, before, after)
    work = finished_cancel(ReassignmentCancel(topic=topic, partition=number, replicas=after.replicas))
    return await follow(services, cluster, attempt, work, OperationState.SUCCEEDED)


async def _alter(
    services: Services,
    cluster: str,
    topic: str,
    number: int,
    attempt: Attempt,
    *,
    replicas: tuple[int, ...] | None,
    throttled_rate: int | None = None,
    condition: Precondition,
) -> tuple[PartitionState, PartitionState]:
    """Return the partition before and after the change. Raises the core's refusal as a problem."""
    engine = services.engine
    before = decided_partition(engine, cluster, topic, number, condition)
    target = ReassignmentTarget(topic_id=before.topic_id, partition=number, replicas=replicas)
    event = AlterReassignments(**attempt.operation_event, throttled_rate=throttled_rate, targets=(target,))
    reply = await submit(engine, cluster, event, ReassignmentsAltered)
    (result,) = reply.results
    if result.refusal is not None:
        raise refusal_problem(result.refusal)
    assert result.state is not None
    return before, result.state


def _plan(engine: Engine, cluster: str, before: PartitionState, after: PartitionState) -> Answer:
    lag = engine.cluster(cluster).lag((before.topic_id, before.partition))
    learners = len(set(after.replicas) - set(before.replicas))
    size = 0 if learners == 0 else None if lag is None else lag.size_bytes * learners
    view = partition_view(after, lag=None, why=None, last_change=None)
    return Answer.of(200, ReassignmentPlan(partition=view, bytes_to_copy=size))


def reassignment_view(
    found: ReassignmentProgress, operations: Mapping[PartitionKey, str]
) -> ReassignmentView:
    targets, originals = found.target_replicas, found.original_replicas
    return ReassignmentView.of(
        found,
        adding_replicas=[broker for broker in targets if broker not in originals],
        removing_replicas=[broker for broker in originals if broker not in targets],
        targets=[
            TargetView.of(
                target,
                rate_bytes_per_s=target.rate,
                eta=eta_view([target]),
                throttle_bytes_per_s=target.throttled_rate,
            )
            for target in found.targets
        ],
        targets_in_sync=len(found.targets) - found.remaining,
        blocked=None
        if found.blocked is None
        else BlockedReasonView(code=found.blocked.value, detail=found.detail),
        operation_id=operations.get((found.topic_id, found.partition)),
    )
