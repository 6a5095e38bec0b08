"""Creating, changing, deleting and showing topics."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from admin_api.http.answers import Answer
from admin_api.http.conditions import Precondition
from admin_api.http.models import lag_fields, last_change, timestamp
from admin_api.http.problems import FieldProblem, ProblemError, refusal_problem
from admin_api.http.services import Services
from admin_api.http.writes import Asked, Attempt, begun_before, follow, submit
from admin_api.plans.models import plan_view
from admin_api.plans.service import carry_out, check_outcome, order_of, origin_of
from admin_api.topics.models import (
    READERS_SHOWN_MAX,
    ChangeTopic,
    NewTopic,
    PlacedPartition,
    TopicDeletionPlan,
    TopicDetail,
    TopicPlan,
    TopicReader,
    TopicView,
)
from admin_api.topics.names import NAME_WAIT_MS, until_free
from admin_api.topics.serving import until_serving
from controller.face.cluster import Change, Engine, Entity, KnownCluster
from controller.face.commands import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    PartitionsAdded,
    Refusal,
    RefusalCode,
    TopicCreated,
    TopicDeletionStarted,
)
from controller.face.operations import (
    OperationState,
    PartitionsAdd,
    ReplicationFactorChange,
    TopicDelete,
    begin_partitions_add,
    begin_topic_delete,
)
from controller.face.plans import ChangeReplicationFactor, make, store_plan
from controller.face.policies import verdicts_on
from controller.face.settings import MINIMUM, effective
from springtide.contract.partition_state import NO_LEADER, PartitionState, TopicState


def cluster_for(engine: Engine, body: NewTopic) -> str:
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


def creation_of(cluster: str, body: NewTopic) -> Asked:
    """Return the record of the request, for REST and for Kafka clients alike, as the two below do."""
    return Asked(
        cluster=cluster,
        action="create_topic",
        entity=Entity.TOPIC,
        entity_id=body.name,
        body=body.model_dump(mode="json"),
        reason=body.reason,
        topic=body.name,
    )


def change_of(cluster: str, topic: str, body: ChangeTopic) -> Asked:
    return Asked(
        cluster=cluster,
        action="add_partitions" if body.replication_factor is None else "change_replication_factor",
        entity=Entity.TOPIC,
        entity_id=topic,
        body=body.model_dump(mode="json"),
        reason=body.reason,
        topic=topic,
        is_operation=True,
    )


def deletion_of(cluster: str, topic: str, reason: str | None = None) -> Asked:
    return Asked(
        cluster=cluster,
        action="delete_topic",
        entity=Entity.TOPIC,
        entity_id=topic,
        body={"name": topic},
        reason=reason,
        topic=topic,
        is_operation=True,
    )


async def create_topic(services: Services, cluster: str, body: NewTopic, attempt: Attempt) -> Answer:
    """Create the topic and answer 201 with it. Answer 200 with the existing topic if the request allows that,
    or for a dry run. Wait for a name that a deleted topic still holds, and as long as the request asks until
    clients can use the topic."""
    answer = await _create(services, cluster, body, attempt)
    state = services.engine.cluster(cluster).image.topic_named(body.name)
    if not body.wait_ms or attempt.dry_run or state is None:
        return answer
    await until_serving(services, cluster, [state.topic_id], body.wait_ms)
    if answer.status == 201:
        return _created(services.engine, cluster, state)
    return Answer.of(200, _present(services.engine, cluster, state))


async def _create(services: Services, cluster: str, body: NewTopic, attempt: Attempt) -> Answer:
    engine = services.engine
    if not attempt.dry_run:
        await until_free(services, cluster, (body.name,), NAME_WAIT_MS)
    existing = engine.cluster(cluster).image.topic_named(body.name)
    if existing is not None and body.if_not_exists:
        return Answer.of(200, _present(engine, cluster, existing))
    event = CreateTopic(
        **attempt.event,
        topic_id=attempt.seed,
        topic=body.name,
        partitions=body.partitions,
        replication_factor=body.replication_factor,
        assignments=None if body.assignments is None else tuple(tuple(row) for row in body.assignments),
        configs=dict(body.configs),
    )
    reply = await engine.submit(cluster, event)
    if isinstance(reply, Refusal):
        return _exists(engine, cluster, body, attempt, reply)
    assert isinstance(reply, TopicCreated), reply
    if attempt.dry_run:
        return _plan(cluster, reply, [], defaults=engine.cluster(cluster).image.configs)
    return _created(engine, cluster, reply.state)


def _exists(engine: Engine, cluster: str, body: NewTopic, attempt: Attempt, refusal: Refusal) -> Answer:
    state = engine.cluster(cluster).image.topic_named(body.name)
    if state is None or refusal.code is not RefusalCode.TOPIC_ALREADY_EXISTS:
        raise refusal_problem(refusal)
    if state.topic_id == attempt.seed:
        # An earlier attempt under the same Idempotency-Key created it, and its answer was lost.
        return _created(engine, cluster, state)
    if body.if_not_exists:
        return Answer.of(200, _present(engine, cluster, state))
    raise refusal_problem(refusal)


def _created(engine: Engine, cluster: str, state: TopicState) -> Answer:
    return Answer.of(
        201,
        _present(engine, cluster, state),
        version=version_of(engine.cluster(cluster), state),
        Location=f"/clusters/{cluster}/topics/{state.topic}",
    )


def _present(engine: Engine, cluster: str, state: TopicState) -> TopicView:
    return show_topic(cluster, engine.cluster(cluster), state)


def find_topic(view: KnownCluster, cluster: str, name: str) -> TopicState:
    """Return the topic; raise topic_not_found if it does not exist. A topic that is being deleted counts as
    missing."""
    state = view.image.topic_named(name)
    if state is None:
        raise ProblemError("topic_not_found", f"there is no topic {name!r} in {cluster!r}")
    return state


def version_of(view: KnownCluster, state: TopicState) -> str:
    """Return the version of the topic's own row. Its partitions have their own versions."""
    return str(view.version_of(Entity.TOPIC, state.topic_id))


def check_settled(engine: Engine, cluster: str, topic: TopicState, condition: Precondition) -> None:
    """Raise precondition_failed unless the topic's row is the one that the change was decided on."""
    is_settled = engine.cluster(cluster).decided.topics.get(topic.topic_id) == topic
    version = version_of(engine.cluster(cluster), topic) if is_settled else None
    condition.check(version, what=f"topic {topic.topic!r}")


async def delete_topic(
    services: Services,
    cluster: str,
    name: str,
    condition: Precondition,
    attempt: Attempt,
    *,
    wait_ms: int = NAME_WAIT_MS,
) -> Answer:
    """Delete the topic and answer 202 with an operation that ends when every replica is deleted. The name is
    free when that is answered, unless a leader can't be heard from for longer than `wait_ms`. A repetition
    waits like the first and then finds no such topic."""
    engine = services.engine
    if not attempt.dry_run and engine.cluster(cluster).image.topic_named(name) is None:
        await until_free(services, cluster, (name,), wait_ms)
    topic = find_topic(engine.cluster(cluster), cluster, name)
    check_settled(engine, cluster, topic, condition)
    before = show_topic(cluster, engine.cluster(cluster), topic)
    event = DeleteTopic(**attempt.operation_event, topic_id=topic.topic_id)
    started = await submit(engine, cluster, event, TopicDeletionStarted)
    if attempt.dry_run:
        kept = started.state.kept
        plan = TopicDeletionPlan(
            topic=before,
            waits_for_brokers=list(started.waiting_for),
            kept_until=timestamp(kept.until_ms) if kept else None,
        )
        return Answer.of(200, plan)
    work = begin_topic_delete(TopicDelete(topic=name, topic_id=topic.topic_id))
    answer = await follow(services, cluster, attempt, work, OperationState.RUNNING)
    await until_free(services, cluster, (name,), wait_ms)
    return answer


def show_topic(cluster: str, view: KnownCluster, state: TopicState) -> TopicView:
    change = view.last_change(Entity.TOPIC, state.topic_id)
    partitions = view.image.partitions_of(state.topic_id)
    shown = topic_view(cluster, state, partitions, change, defaults=view.image.configs)
    rates = view.topic_rates(state.topic_id)
    told = {
        "size_bytes": view.topic_size(state.topic_id),
        "bytes_in_per_s": None if rates is None else rates.bytes_in,
        "bytes_out_per_s": None if rates is None else rates.bytes_out,
        "groups": view.readers_count(state.topic),
    }
    return shown.model_copy(update=told)


def topic_detail(services: Services, cluster: str, view: KnownCluster, state: TopicState) -> TopicDetail:
    """Return the topic with its readers, those that are farthest behind first."""
    now_ms = services.clock.now_mono_ms()
    known = view.readers(state.topic).items()
    readers = [
        TopicReader(
            group_id=group_id,
            members_total=group.members,
            **lag_fields(group.topics[state.topic], now_ms),
        )
        for group_id, group in heapq.nlargest(
            READERS_SHOWN_MAX, known, key=lambda one: one[1].topics[state.topic].records
        )
    ]
    return TopicDetail(**show_topic(cluster, view, state).model_dump(), readers=readers)


def sort_value(view: KnownCluster, state: TopicState, order: str) -> int:
    """Return the value that the list of topics is ordered by, before the name. What is not known comes
    below 0."""
    match order.removeprefix("-"):
        case "partitions":
            return state.partitions
        case "size":
            return _known(view.topic_size(state.topic_id))
        case "bytes_in":
            rates = view.topic_rates(state.topic_id)
            return _known(None if rates is None else rates.bytes_in)
        case "bytes_out":
            rates = view.topic_rates(state.topic_id)
            return _known(None if rates is None else rates.bytes_out)
        case "groups":
            return _known(view.readers_count(state.topic))
        case _:
            return 0


def _known(value: int | None) -> int:
    return 0 if value is None else value + 1


def topic_view(
    cluster: str,
    state: TopicState,
    partitions: Sequence[PartitionState],
    change: Change | None,
    *,
    defaults: Mapping[str, str],
) -> TopicView:
    """Return the summary of a topic. defaults: the cluster's settings."""
    # Each partition is looked at once: a page may show a hundred topics of thousands.
    kinds = {(p.min_insync_replicas, p.replication_factor) for p in partitions}
    minimum = max((least for least, _ in kinds), default=1)
    online = under_replicated = under_min_isr = 0
    for p in partitions:
        in_sync = len(p.isr)
        online += p.leader not in (NO_LEADER, *p.new_replicas)
        under_replicated += in_sync < p.replication_factor
        under_min_isr += in_sync < p.min_insync_replicas
    configured = effective(MINIMUM, state.configs, defaults)
    return TopicView.of(
        state,
        name=state.topic,
        cluster=cluster,
        state="deleting" if state.deleting else "online",
        min_insync_replicas=minimum,
        configured_min_insync_replicas=None if configured is None else int(configured),
        tolerates_broker_losses=max(0, state.replication_factor - minimum),
        online_partitions=online,
        under_replicated_partitions=under_replicated,
        under_min_isr_partitions=under_min_isr,
        size_bytes=None,
        bytes_in_per_s=None,
        bytes_out_per_s=None,
        groups=None,
        warnings=_warnings(state, kinds, configured),
        last_change=last_change(change),
    )


def _warnings(state: TopicState, kinds: set[tuple[int, int]], configured: str | None) -> list[str]:
    """Return what an operator may not expect of the minimum. kinds: minimum and replication factor of the
    partitions. configured: as the topic or the cluster has it. A single replica is no surprise."""
    found = []
    capped = {minimum for minimum, _ in kinds if minimum < int(configured or 0)}
    if capped:
        of = "topic" if MINIMUM in state.configs else "cluster"
        applied = " or ".join(map(str, sorted(capped)))
        found.append(
            f"the {of}'s {MINIMUM} of {configured} is more than there are replicas: {applied} applies"
        )
    full = {factor for minimum, factor in kinds if minimum == factor > 1}
    if full:
        replicas = " or ".join(map(str, sorted(full)))
        found.append(f"all {replicas} replicas must be in sync: acks=all tolerates the loss of none")
    return found


async def add_partitions(
    services: Services,
    cluster: str,
    name: str,
    attempt: Attempt,
    *,
    body: ChangeTopic,
    condition: Precondition,
) -> Answer:
    """Add partitions and answer 202 with an operation that ends when every broker has created its new
    replicas."""
    assert body.partitions is not None
    engine = services.engine
    view = engine.cluster(cluster)
    topic = find_topic(view, cluster, name)
    if not _is_added(view, topic, body, attempt):
        check_settled(engine, cluster, topic, condition)
        event = AddPartitions(
            **attempt.operation_event,
            topic_id=topic.topic_id,
            partitions=body.partitions,
            assignments=None if body.assignments is None else tuple(tuple(row) for row in body.assignments),
        )
        added = await submit(engine, cluster, event, PartitionsAdded)
        if attempt.dry_run:
            existing = view.image.partitions_of(topic.topic_id)
            return _plan(cluster, added, existing, defaults=view.image.configs)
    spec = PartitionsAdd(topic=name, topic_id=topic.topic_id, partitions=body.partitions)
    return await follow(services, cluster, attempt, begin_partitions_add(spec), OperationState.RUNNING)


def _is_added(view: KnownCluster, topic: TopicState, body: ChangeTopic, attempt: Attempt) -> bool:
    """Return whether an earlier attempt under the same Idempotency-Key did it and its answer was lost."""
    change = view.last_change(Entity.TOPIC, topic.topic_id)
    return (
        not attempt.dry_run
        and change is not None
        and change.operation_id == attempt.operation_id
        and topic.partitions == body.partitions
    )


def _plan(
    cluster: str,
    reply: TopicCreated | PartitionsAdded,
    existing: Sequence[PartitionState],
    *,
    defaults: Mapping[str, str],
) -> Answer:
    """Return the answer to a dry run. existing: the partitions that the topic has already."""
    partitions = (*existing, *reply.partitions)
    topic = topic_view(cluster, reply.state, partitions, None, defaults=defaults)
    placed = [PlacedPartition.of(partition) for partition in reply.partitions]
    return Answer.of(200, TopicPlan(topic=topic, assignments=placed))


async def change_replication_factor(
    services: Services,
    cluster: str,
    name: str,
    attempt: Attempt,
    *,
    body: ChangeTopic,
    condition: Precondition,
) -> Answer:
    """Change the replication factor and answer 202 with the operation; for a dry run 200 with the plan.
    Refuse the whole change if some partition can't have so many replicas."""
    factor = body.replication_factor
    assert factor is not None
    if not attempt.dry_run:
        begun = await begun_before(services, attempt)
        if begun is not None:
            return begun
    topic = find_topic(services.engine.cluster(cluster), cluster, name)
    check_settled(services.engine, cluster, topic, condition)
    goal = ChangeReplicationFactor(topic_id=topic.topic_id, replication_factor=factor)
    plan = await make(services.engine, services.database, cluster, goal)
    check_outcome(plan, ["/replication_factor"] * max(1, len(plan.rejections), len(plan.skipped)))
    verdicts = await verdicts_on(services.engine, services.database, cluster, plan)
    if attempt.dry_run:
        return Answer.of(200, plan_view(cluster, plan, verdicts))
    stored = await store_plan(
        services.engine,
        services.database,
        cluster,
        plan,
        origin_of(attempt),
        now_ms=attempt.wall_ms,
        verdicts=verdicts,
    )
    spec = ReplicationFactorChange(
        topic=name, topic_id=topic.topic_id, replication_factor=factor, plan_id=stored.row.id
    )
    return await carry_out(services, stored, attempt, order=order_of(stored.plan, body), spec=spec)
