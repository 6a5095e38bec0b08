"""Changes of a topic's replication factor: a plan, and the operation that carries it out."""

from __future__ import annotations

from functools import partial

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.views import accepted
from admin_api.plans.service import carry_out, check_outcome, order_of
from admin_api.plans.views import plan_view
from admin_api.services import Services
from admin_api.topics.changes import ChangeTopic
from admin_api.topics.service import check_settled, find_topic
from admin_api.writes import Attempt
from controller.core.planning.goals import ChangeReplicationFactor
from controller.database.operation_rows import get_operation
from controller.operations.model import ReplicationFactorChange
from controller.operations.shell.plans import Origin, make, plan_id_of, store_plan
from controller.policies.judging import verdicts_on


async def change_replication_factor(
    services: Services,
    cluster: str,
    name: str,
    attempt: Attempt,
    *,
    body: ChangeTopic,
    condition: Condition,
) -> Answer:
    """Change the replication factor and answer 202 with the operation; for a dry run 200 with the plan.
    Refuse the whole change if some partition can't have so many replicas."""
    factor = body.replication_factor
    assert factor is not None
    if not attempt.dry_run:
        begun = await services.database.read(partial(get_operation, operation_id=attempt.operation_id))
        if begun is not None:  # begun under the same Idempotency-Key, and its answer was lost
            return accepted(begun, retry_after_s=services.settings.retry_after_s)
    topic = find_topic(services.engine.image(cluster), cluster, name)
    check_settled(services.engine, cluster, topic, condition)
    goal = ChangeReplicationFactor(topic_id=topic.topic_id, replication_factor=factor)
    plan = await make(services.engine, services.database, cluster, goal)
    check_outcome(plan, ["/replication_factor"] * max(1, len(plan.rejections), len(plan.skipped)))
    verdicts = await verdicts_on(services.engine, services.database, cluster, plan)
    if attempt.dry_run:
        return Answer.of(200, plan_view(cluster, plan, verdicts))
    origin = Origin(
        plan_id=plan_id_of(attempt.seed),
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
    )
    stored = await store_plan(
        services.engine, services.database, cluster, plan, origin, now_ms=attempt.wall_ms, verdicts=verdicts
    )
    spec = ReplicationFactorChange(
        topic=name, topic_id=topic.topic_id, replication_factor=factor, plan_id=stored.row.id
    )
    return await carry_out(services, stored, attempt, order=order_of(stored.plan, body), spec=spec)
