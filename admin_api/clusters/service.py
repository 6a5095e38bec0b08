"""Creation and summaries of clusters."""

from __future__ import annotations

from admin_api.answers import Answer
from admin_api.clusters.models import (
    AlarmView,
    BrokerCounts,
    BroughtBackPartition,
    BroughtBackTopics,
    ClusterView,
    ControllerSummary,
    MetadataRecovery,
    NewCluster,
    PartitionCounts,
    RecoveredMetadata,
    SetAsideLogView,
    TopicsToBringBack,
    UndecidedPartition,
)
from admin_api.names import timestamp
from admin_api.resilience import service as resilience
from admin_api.views import LastChange
from admin_api.writes import Attempt, refusal_problem
from controller.audit.change import Entity
from controller.contract.session import BrokerStatus
from controller.core import events
from controller.core.configs import CLUSTER_SETTINGS, check_configs, is_cluster_protected
from controller.core.effects import Alarm
from controller.core.image import ClusterImage
from controller.shell.engine_port import EnginePort
from controller.shell.outcomes import ClusterExists
from controller.shell.published import Published


async def create_cluster(engine: EnginePort, body: NewCluster, attempt: Attempt) -> Answer:
    refusal = check_configs(body.configs, CLUSTER_SETTINGS)
    if refusal is not None:
        raise refusal_problem(refusal)
    if attempt.dry_run:
        if body.name in engine.clusters():
            raise ClusterExists(body.name)
        return Answer.of(200, empty_view(engine, body, attempt.seed))
    await engine.create_cluster(
        body.name,
        configs=body.configs,
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
    )
    view = engine.image(body.name)
    return Answer.of(
        201,
        cluster_view(engine, body.name, view),
        version=version_of(body.name, view),
        Location=f"/clusters/{body.name}",
    )


async def recover_metadata(
    engine: EnginePort, cluster: str, body: MetadataRecovery, attempt: Attempt
) -> Answer:
    reply = await engine.recover_metadata(
        cluster,
        events.RecoverMetadata(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            gone_brokers=tuple(body.gone_brokers),
        ),
    )
    if isinstance(reply, events.Refusal):
        raise refusal_problem(reply)
    view = RecoveredMetadata(
        brokers=list(reply.brokers),
        topics_brought_back=list(reply.topics_brought_back),
        partitions=reply.partitions,
        undecided=[UndecidedPartition(topic_id=key[0], partition=key[1]) for key in reply.undecided],
        dry_run=reply.dry_run,
    )
    return Answer.of(200, view)


async def bring_back(engine: EnginePort, cluster: str, body: TopicsToBringBack, attempt: Attempt) -> Answer:
    reply = await engine.submit(
        cluster,
        events.BringBackTopics(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            topic_ids=tuple(body.topic_ids),
            gone_brokers=tuple(body.gone_brokers),
        ),
    )
    if isinstance(reply, events.Refusal):
        raise refusal_problem(reply)
    assert isinstance(reply, events.TopicsBroughtBack), reply
    view = BroughtBackTopics(
        topics=[topic.topic for topic in reply.topics],
        partitions=[
            BroughtBackPartition(
                topic=state.topic,
                topic_id=state.topic_id,
                partition=state.partition,
                replicas=list(state.replicas),
                whole_replica=next(iter(state.isr), None),
            )
            for state in reply.partitions
        ],
        undecided=[UndecidedPartition(topic_id=key[0], partition=key[1]) for key in reply.undecided],
        dry_run=reply.dry_run,
    )
    return Answer.of(200, view)


def set_aside_views(engine: EnginePort, cluster: str) -> list[SetAsideLogView]:
    known = engine.image(cluster).image.topics
    return [
        SetAsideLogView(
            broker_id=broker_id,
            directory=log.directory,
            topic=log.topic,
            topic_id=log.topic_id,
            partition=log.partition,
            leader_epoch=_if_known(log.leader_epoch),
            log_start_offset=_if_known(log.log_start_offset),
            log_end_offset=_if_known(log.log_end_offset),
            high_watermark=_if_known(log.high_watermark),
            size_bytes=log.size_bytes,
            why=log.why,
            since=None if log.since_ms < 0 else timestamp(log.since_ms),
            can_come_back=log.is_whole and log.topic_id not in known,
        )
        for broker_id, logs in engine.set_aside(cluster).items()
        for log in logs
    ]


def _if_known(number: int) -> int | None:
    return None if number < 0 else number


def version_of(name: str, view: Published) -> str:
    """Return the version of the cluster's own row. Brokers and topics have their own versions."""
    return str(view.version_of(Entity.CLUSTER, name))


def empty_view(engine: EnginePort, body: NewCluster, cluster_id: str) -> ClusterView:
    """Return the cluster that a dry run would have created."""
    return ClusterView(
        name=body.name,
        cluster_id=cluster_id,
        health="ok",
        configs=dict(body.configs),
        protected=is_cluster_protected(body.configs),
        brokers=BrokerCounts(active=0, fenced=0, shutting_down=0, waiting=0),
        topics=0,
        partitions=PartitionCounts(
            total=0, leaderless=0, under_min_isr=0, under_replicated=0, leader_not_preferred=0
        ),
        controller=ControllerSummary(active_url=engine.active_url, epoch=engine.controller_epoch),
        resilience=resilience.summary(ClusterImage()),
        last_change=None,
    )


def cluster_view(engine: EnginePort, name: str, view: Published, *, in_full: bool = True) -> ClusterView:
    """Return the view of a cluster. in_full: include what needs a longer look at every partition."""
    image = view.image
    partitions = partition_counts(image)
    statuses = [broker.status for broker in image.brokers.values()]
    if engine.went_back(name) is not None:
        health = "metadata_went_back"
    elif partitions.leaderless or partitions.under_min_isr:
        health = "critical"
    elif partitions.under_replicated or BrokerStatus.FENCED in statuses:
        health = "degraded"
    else:
        health = "ok"
    return ClusterView(
        name=name,
        cluster_id=image.cluster_id,
        health=health,
        configs=image.configs,
        protected=is_cluster_protected(image.configs),
        brokers=BrokerCounts(
            active=statuses.count(BrokerStatus.ACTIVE),
            fenced=statuses.count(BrokerStatus.FENCED),
            shutting_down=statuses.count(BrokerStatus.SHUTTING_DOWN),
            waiting=statuses.count(BrokerStatus.WAITING),
        ),
        topics=len(image.topic_ids),
        partitions=partitions,
        controller=ControllerSummary(active_url=engine.active_url, epoch=engine.controller_epoch),
        resilience=resilience.summary(image) if in_full else None,
        last_change=LastChange.of(view.changes.get((Entity.CLUSTER, name))),
    )


def partition_counts(image: ClusterImage) -> PartitionCounts:
    """Return the partition counts of topics that are not being deleted, in one pass over the partitions: a
    tenth of a second for a hundred thousand."""
    total = under_replicated = 0
    for (topic_id, _), state in image.partitions.items():
        if topic_id in image.deletions or topic_id not in image.topics:
            continue
        total += 1
        under_replicated += len(state.isr) < state.replication_factor
    return PartitionCounts(
        total=total,
        leaderless=len(image.leaderless),
        under_min_isr=len(image.below_min),
        under_replicated=under_replicated,
        leader_not_preferred=len(image.not_preferred),
    )


def alarm_view(image: ClusterImage, alarm: Alarm) -> AlarmView:
    topic = image.topics.get(alarm.key.topic_id) if alarm.key.topic_id is not None else None
    return AlarmView(
        code=alarm.key.code.value,
        topic=None if topic is None else topic.topic,
        topic_id=alarm.key.topic_id,
        partition=alarm.key.partition,
        broker_id=alarm.key.broker_id,
        detail=alarm.detail,
    )
