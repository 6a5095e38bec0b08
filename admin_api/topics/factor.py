"""Gives a topic's partitions more replicas, or fewer: a plan, and the operation that carries it out."""

from __future__ import annotations

from functools import partial

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.execution import begin_execution
from admin_api.operations.model import OperationState, ReplicationFactorChange, Step, Work
from admin_api.operations.opening import opened
from admin_api.operations.views import accepted
from admin_api.plans.keeping import Origin, plan_id_of, store_plan
from admin_api.plans.making import make
from admin_api.plans.service import check_outcome, order_of
from admin_api.plans.views import plan_view
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.topics.changes import ChangeTopic
from admin_api.topics.service import check_settled, find_topic
from admin_api.writes import Attempt
from controller.audit.operation_rows import get_operation
from controller.core.planning.goals import ChangeReplicationFactor


async def change_replication_factor(
    services: Services,
    cluster: str,
    name: str,
    attempt: Attempt,
    *,
    body: ChangeTopic,
    condition: Condition,
) -> Answer:
    """202 with the operation; of a dry run, 200 with the plan. Refused whole when some partition can't have
    so many."""
    factor = body.replication_factor
    assert factor is not None
    if not attempt.dry_run:
        begun = await services.audit.read(partial(get_operation, operation_id=attempt.operation_id))
        if begun is not None:  # under the same Idempotency-Key, and its answer was lost
            return accepted(begun, retry_after_s=services.settings.retry_after_s)
    topic = find_topic(services.engine.image(cluster), cluster, name)
    check_settled(services.engine, cluster, topic, condition)
    goal = ChangeReplicationFactor(topic_id=topic.topic_id, replication_factor=factor)
    plan = await make(services, cluster, goal)
    check_outcome(plan, ["/replication_factor"] * max(1, len(plan.rejections), len(plan.skipped)))
    if attempt.dry_run:
        return Answer.of(200, plan_view(cluster, plan))
    origin = Origin(
        plan_id=plan_id_of(attempt.seed),
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
    )
    stored = await store_plan(services.audit, cluster, plan, origin, now_ms=attempt.wall_ms)
    order = order_of(stored.plan, body)
    work = Work(
        spec=ReplicationFactorChange(
            topic=name, topic_id=topic.topic_id, replication_factor=factor, plan_id=stored.row.id
        ),
        steps=(Step(name="move"), Step(name="elect")),
        execution=begin_execution(stored.row.id, stored.plan, order),
    )
    is_later = attempt.wall_ms < (order.not_before_ms or 0)
    state = OperationState.SCHEDULED if is_later else OperationState.RUNNING
    row = opened(services, cluster, attempt, work, state)
    if not await services.operations.execute(row, stored.row.id):
        raise ProblemError("plan_executed", "an operation has begun to carry it out")
    return accepted(row, retry_after_s=services.settings.retry_after_s)
