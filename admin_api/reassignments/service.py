"""Showing, beginning and cancelling reassignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.opening import opened
from admin_api.operations.views import accepted, eta_view
from admin_api.partitions.service import find_partition, partition_view, version_of
from admin_api.protection import check_is_planned
from admin_api.reassignments.models import (
    Assign,
    BlockedReasonView,
    ReassignmentPlan,
    ReassignmentView,
    TargetView,
)
from admin_api.services import Services
from admin_api.writes import Attempt, refusal_problem
from controller.contract.partition_state import PartitionKey, PartitionState
from controller.core.events import (
    AlterReassignments,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentTarget,
)
from controller.core.reassignment_progress import ReassignmentProgress
from controller.operations.model import (
    REFUSED_SHOWN,
    Move,
    OperationState,
    Reassignment,
    ReassignmentCancel,
    Refused,
)
from controller.operations.reassignments import advance_reassignment, begin_reassignment, finished_cancel
from controller.shell.engine_port import EnginePort


async def assign(
    services: Services,
    cluster: str,
    topic: str,
    number: int,
    attempt: Attempt,
    *,
    body: Assign,
    condition: Condition,
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
    move = Move(
        topic=topic,
        topic_id=before.topic_id,
        partition=number,
        original=before.original_replicas or before.replicas,
        replicas=tuple(body.replicas),
    )
    spec = Reassignment(moves=(move,))
    # A new order, or fewer replicas, is already complete.
    image = services.engine.image(cluster).image
    step = advance_reassignment(begin_reassignment(spec), spec, OperationState.RUNNING, image, {})
    row = opened(services, cluster, attempt, step.work, step.state)
    await services.operations.follow(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s)


async def assign_each(
    services: Services, cluster: str, attempt: Attempt, *, targets: Sequence[ReassignmentTarget]
) -> tuple[PartitionResult, ...]:
    """Assign many partitions at once, as Kafka's tools ask. Each is carried out or refused alone, and one
    operation follows those that were not refused. A target without replicas is a cancellation. No operation
    follows it; the operation that followed the reassignment ends."""
    engine = services.engine
    before = {
        (target.topic_id, target.partition): engine.decided(cluster).partitions.get(
            (target.topic_id, target.partition)
        )
        for target in targets
    }
    moving = any(target.replicas is not None for target in targets)
    if moving:
        check_is_planned(engine, cluster)
    reply = await engine.submit(
        cluster,
        AlterReassignments(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=attempt.operation_id if moving else None,
            targets=tuple(targets),
        ),
    )
    assert isinstance(reply, ReassignmentsAltered)
    moves: list[Move] = []
    refused: list[Refused] = []
    for target, result in zip(targets, reply.results, strict=True):
        state = before[target.topic_id, target.partition]
        if state is None or target.replicas is None:
            continue
        if result.refusal is not None:
            code, detail = result.refusal.code.value, result.refusal.detail
            refused.append(Refused(topic=state.topic, partition=state.partition, code=code, detail=detail))
            continue
        moves.append(
            Move(
                topic=state.topic,
                topic_id=state.topic_id,
                partition=state.partition,
                original=state.original_replicas or state.replicas,
                replicas=target.replicas,
            )
        )
    if moves:
        spec = Reassignment(moves=tuple(moves))
        image = engine.image(cluster).image
        step = advance_reassignment(begin_reassignment(spec), spec, OperationState.RUNNING, image, {})
        work = msgspec.structs.replace(step.work, refused=tuple(refused[:REFUSED_SHOWN]))
        await services.operations.follow(opened(services, cluster, attempt, work, step.state))
    return reply.results


async def cancel(
    services: Services, cluster: str, topic: str, number: int, attempt: Attempt, *, condition: Condition
) -> Answer:
    """Cancel the reassignment and answer 202 with an operation that has ended: one write restores the
    original replicas, which all still exist. The operation that followed the reassignment ends, too."""
    before, after = await _alter(
        services, cluster, topic, number, attempt, replicas=None, condition=condition
    )
    if attempt.dry_run:
        return _plan(services.engine, cluster, before, after)
    work = finished_cancel(ReassignmentCancel(topic=topic, partition=number, replicas=after.replicas))
    row = opened(services, cluster, attempt, work, OperationState.SUCCEEDED)
    await services.operations.follow(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s)


async def _alter(
    services: Services,
    cluster: str,
    topic: str,
    number: int,
    attempt: Attempt,
    *,
    replicas: tuple[int, ...] | None,
    throttled_rate: int | None = None,
    condition: Condition,
) -> tuple[PartitionState, PartitionState]:
    """Return the partition before and after the change. Raises the core's refusal as a problem."""
    engine = services.engine
    shown = find_partition(engine.image(cluster), cluster, topic, number)
    before = engine.decided(cluster).partitions.get((shown.topic_id, number))
    condition.check(
        None if before is None else version_of(before), what=f"partition {number} of topic {topic!r}"
    )
    reply = await engine.submit(
        cluster,
        AlterReassignments(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=None if attempt.dry_run else attempt.operation_id,
            dry_run=attempt.dry_run,
            throttled_rate=throttled_rate,
            targets=(ReassignmentTarget(topic_id=shown.topic_id, partition=number, replicas=replicas),),
        ),
    )
    assert isinstance(reply, ReassignmentsAltered)
    (result,) = reply.results
    if result.refusal is not None:
        raise refusal_problem(result.refusal)
    assert result.state is not None
    return before or shown, result.state


def _plan(engine: EnginePort, cluster: str, before: PartitionState, after: PartitionState) -> Answer:
    lag = engine.lag(cluster, (before.topic_id, before.partition))
    learners = len(set(after.replicas) - set(before.replicas))
    size = 0 if learners == 0 else None if lag is None else lag.size_bytes * learners
    view = partition_view(after, lag=None, why=None, last_change=None)
    return Answer.of(200, ReassignmentPlan(partition=view, bytes_to_copy=size))


def reassignment_view(
    found: ReassignmentProgress, operations: Mapping[PartitionKey, str]
) -> ReassignmentView:
    targets, originals = found.target_replicas, found.original_replicas
    return ReassignmentView(
        topic=found.topic,
        topic_id=found.topic_id,
        partition=found.partition,
        partition_epoch=found.partition_epoch,
        original_replicas=list(originals),
        target_replicas=list(targets),
        adding_replicas=[broker for broker in targets if broker not in originals],
        removing_replicas=[broker for broker in originals if broker not in targets],
        targets=[
            TargetView(
                broker_id=target.broker_id,
                is_learner=target.is_learner,
                in_sync=target.in_sync,
                log_end_offset=target.log_end_offset,
                lag_records=target.lag_records,
                copied_bytes=target.copied_bytes,
                remaining_bytes=target.remaining_bytes,
                rate_bytes_per_s=target.rate,
                eta=eta_view([target]),
                throttle_bytes_per_s=target.throttled_rate,
            )
            for target in found.targets
        ],
        targets_in_sync=len(found.targets) - found.remaining,
        copied_bytes=found.copied_bytes,
        remaining_bytes=found.remaining_bytes,
        size_bytes=found.size_bytes,
        blocked=None
        if found.blocked is None
        else BlockedReasonView(code=found.blocked.value, detail=found.detail),
        operation_id=operations.get((found.topic_id, found.partition)),
    )
