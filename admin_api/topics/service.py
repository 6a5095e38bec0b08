"""Creating, deleting and showing topics."""

from __future__ import annotations

from collections.abc import Sequence

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.views import accepted
from admin_api.problem import FieldProblem, ProblemError
from admin_api.services import Services
from admin_api.topics.models import NewTopic, PlacedPartition, TopicDeletionPlan, TopicPlan, TopicView
from admin_api.views import LastChange
from admin_api.writes import Attempt, refusal_problem
from controller.audit.change import Entity
from controller.contract.partition_state import NO_LEADER, PartitionState, TopicState
from controller.core.events import (
    CreateTopic,
    DeleteTopic,
    Refusal,
    RefusalCode,
    TopicCreated,
    TopicDeletionStarted,
)
from controller.core.records import Change
from controller.database.rows import OperationRow
from controller.operations.advance import begin_topic_delete
from controller.operations.model import OperationState, TopicDelete, encode_work
from controller.shell.engine_port import EnginePort
from controller.shell.published import Published


def cluster_for(engine: EnginePort, body: NewTopic) -> str:
    """Return the cluster of a topic whose request names none in its path."""
    if body.cluster is not None:
        return body.cluster
    clusters = engine.clusters()
    if len(clusters) == 1:
        return clusters[0]
    detail = "there is no cluster yet" if not clusters else f"there are {len(clusters)} clusters"
    field = FieldProblem(pointer="/cluster", message="is needed: name the cluster")
    raise ProblemError("cluster_required", detail, errors=(field,))


def check_path_agrees(cluster: str, body: NewTopic) -> None:
    if body.cluster is not None and body.cluster != cluster:
        field = FieldProblem(pointer="/cluster", message=f"is not {cluster!r}, the cluster in the path")
        raise ProblemError("invalid_request", "the body and the path name two clusters", errors=(field,))


async def create_topic(services: Services, cluster: str, body: NewTopic, attempt: Attempt) -> Answer:
    """Create the topic and answer 201 with it. Answer 200 with the existing topic if the request allows that,
    or for a dry run."""
    engine = services.engine
    existing = engine.image(cluster).image.topic_named(body.name)
    if existing is not None and body.if_not_exists:
        return Answer.of(200, _present(engine, cluster, existing))
    reply = await engine.submit(
        cluster,
        CreateTopic(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            topic_id=attempt.seed,
            topic=body.name,
            partitions=body.partitions,
            replication_factor=body.replication_factor,
            assignments=None if body.assignments is None else tuple(tuple(row) for row in body.assignments),
            configs=dict(body.configs),
        ),
    )
    match reply:
        case TopicCreated(state=state, partitions=partitions) if attempt.dry_run:
            placed = [PlacedPartition(partition=p.partition, replicas=list(p.replicas)) for p in partitions]
            return Answer.of(
                200, TopicPlan(topic=topic_view(cluster, state, partitions, None), assignments=placed)
            )
        case TopicCreated(state=state):
            return _created(engine, cluster, state)
        case Refusal(code=RefusalCode.TOPIC_ALREADY_EXISTS) as refusal:
            return _exists(engine, cluster, body, attempt, refusal)
        case Refusal() as refusal:
            raise refusal_problem(refusal)
        case _:
            raise AssertionError(f"unexpected answer to CreateTopic: {reply!r}")


def _exists(engine: EnginePort, cluster: str, body: NewTopic, attempt: Attempt, refusal: Refusal) -> Answer:
    state = engine.image(cluster).image.topic_named(body.name)
    if state is not None and state.topic_id == attempt.seed:
        # An earlier attempt under the same Idempotency-Key created it, and its answer was lost.
        return _created(engine, cluster, state)
    if state is not None and body.if_not_exists:
        return Answer.of(200, _present(engine, cluster, state))
    raise refusal_problem(refusal)


def _created(engine: EnginePort, cluster: str, state: TopicState) -> Answer:
    return Answer.of(
        201,
        _present(engine, cluster, state),
        version=version_of(engine.image(cluster), state),
        Location=f"/clusters/{cluster}/topics/{state.topic}",
    )


def _present(engine: EnginePort, cluster: str, state: TopicState) -> TopicView:
    return show_topic(cluster, engine.image(cluster), state)


def find_topic(view: Published, cluster: str, name: str) -> TopicState:
    """Return the topic; raise topic_not_found if it does not exist. A topic that is being deleted counts as
    missing."""
    state = view.image.topic_named(name)
    if state is None:
        raise ProblemError("topic_not_found", f"there is no topic {name!r} in {cluster!r}")
    return state


def version_of(view: Published, state: TopicState) -> str:
    """Return the version of the topic's own row. Its partitions have their own versions."""
    return str(view.version_of(Entity.TOPIC, state.topic_id))


def check_settled(engine: EnginePort, cluster: str, topic: TopicState, condition: Condition) -> None:
    """Raise precondition_failed unless the topic's row is the one that the change was decided on."""
    is_settled = engine.decided(cluster).topics.get(topic.topic_id) == topic
    version = version_of(engine.image(cluster), topic) if is_settled else None
    condition.check(version, what=f"topic {topic.topic!r}")


async def delete_topic(
    services: Services, cluster: str, name: str, condition: Condition, attempt: Attempt
) -> Answer:
    """Delete the topic and answer 202 with an operation that ends when every replica is deleted. The name is
    free at once."""
    engine = services.engine
    topic = find_topic(engine.image(cluster), cluster, name)
    check_settled(engine, cluster, topic, condition)
    before = show_topic(cluster, engine.image(cluster), topic)
    reply = await engine.submit(
        cluster,
        DeleteTopic(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=None if attempt.dry_run else attempt.operation_id,
            dry_run=attempt.dry_run,
            topic_id=topic.topic_id,
        ),
    )
    match reply:
        case TopicDeletionStarted(waiting_for=waiting_for) if attempt.dry_run:
            return Answer.of(200, TopicDeletionPlan(topic=before, waits_for_brokers=list(waiting_for)))
        case TopicDeletionStarted():
            pass
        case Refusal() as refusal:
            raise refusal_problem(refusal)
        case _:
            raise AssertionError(f"unexpected answer to DeleteTopic: {reply!r}")
    work = begin_topic_delete(TopicDelete(topic=name, topic_id=topic.topic_id))
    row = OperationRow(
        id=attempt.operation_id,
        kind="topic_delete",
        cluster=cluster,
        state=OperationState.RUNNING.value,
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
        created_at_ms=attempt.wall_ms,
        started_at_ms=attempt.wall_ms,
        deadline_at_ms=attempt.wall_ms + services.settings.preflight_deadline_ms,
        body=encode_work(work),
    )
    await services.operations.follow(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s)


def show_topic(cluster: str, view: Published, state: TopicState) -> TopicView:
    change = view.changes.get((Entity.TOPIC, state.topic_id))
    return topic_view(cluster, state, view.image.partitions_of(state.topic_id), change)


def topic_view(
    cluster: str, state: TopicState, partitions: Sequence[PartitionState], change: Change | None
) -> TopicView:
    minimum = max((partition.min_insync_replicas for partition in partitions), default=1)
    return TopicView(
        name=state.topic,
        topic_id=state.topic_id,
        cluster=cluster,
        state="deleting" if state.deleting else "online",
        partitions=state.partitions,
        replication_factor=state.replication_factor,
        min_insync_replicas=minimum,
        tolerates_broker_losses=max(0, state.replication_factor - minimum),
        online_partitions=sum(p.leader not in (NO_LEADER, *p.new_replicas) for p in partitions),
        under_replicated_partitions=sum(len(p.isr) < p.replication_factor for p in partitions),
        under_min_isr_partitions=sum(len(p.isr) < p.min_insync_replicas for p in partitions),
        configs=state.configs,
        last_change=LastChange.of(change),
    )
