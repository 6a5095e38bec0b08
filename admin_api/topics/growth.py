"""Adding partitions to topics."""

from __future__ import annotations

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.opening import opened
from admin_api.operations.views import accepted
from admin_api.services import Services
from admin_api.topics.changes import ChangeTopic
from admin_api.topics.models import PlacedPartition, TopicPlan
from admin_api.topics.service import check_settled, find_topic, topic_view
from admin_api.writes import Attempt, refusal_problem
from controller.audit.change import Entity
from controller.contract.partition_state import TopicState
from controller.core.events import AddPartitions, PartitionsAdded, Refusal
from controller.operations.model import OperationState, PartitionsAdd
from controller.operations.topic_growth import begin_partitions_add
from controller.shell.published import Published


async def add_partitions(
    services: Services,
    cluster: str,
    name: str,
    attempt: Attempt,
    *,
    body: ChangeTopic,
    condition: Condition,
) -> Answer:
    """Add partitions and answer 202 with an operation that ends when every broker has created its new
    replicas."""
    assert body.partitions is not None
    engine = services.engine
    view = engine.image(cluster)
    topic = find_topic(view, cluster, name)
    if not _is_added(view, topic, body, attempt):
        check_settled(engine, cluster, topic, condition)
        reply = await engine.submit(
            cluster,
            AddPartitions(
                wall_ms=attempt.wall_ms,
                actor=attempt.actor,
                reason=attempt.reason,
                request_id=attempt.request_id,
                operation_id=None if attempt.dry_run else attempt.operation_id,
                dry_run=attempt.dry_run,
                topic_id=topic.topic_id,
                partitions=body.partitions,
                assignments=None
                if body.assignments is None
                else tuple(tuple(row) for row in body.assignments),
            ),
        )
        match reply:
            case PartitionsAdded() if attempt.dry_run:
                return _plan(cluster, view, reply)
            case PartitionsAdded():
                pass
            case Refusal() as refusal:
                raise refusal_problem(refusal)
            case _:
                raise AssertionError(f"unexpected answer to AddPartitions: {reply!r}")
    spec = PartitionsAdd(topic=name, topic_id=topic.topic_id, partitions=body.partitions)
    row = opened(services, cluster, attempt, begin_partitions_add(spec), OperationState.RUNNING)
    await services.operations.follow(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s)


def _is_added(view: Published, topic: TopicState, body: ChangeTopic, attempt: Attempt) -> bool:
    """Return whether an earlier attempt under the same Idempotency-Key did it and its answer was lost."""
    change = view.changes.get((Entity.TOPIC, topic.topic_id))
    return (
        not attempt.dry_run
        and change is not None
        and change.operation_id == attempt.operation_id
        and topic.partitions == body.partitions
    )


def _plan(cluster: str, view: Published, reply: PartitionsAdded) -> Answer:
    placed = [PlacedPartition(partition=p.partition, replicas=list(p.replicas)) for p in reply.partitions]
    partitions = (*view.image.partitions_of(reply.state.topic_id), *reply.partitions)
    topic = topic_view(cluster, reply.state, partitions, None)
    return Answer.of(200, TopicPlan(topic=topic, assignments=placed))
