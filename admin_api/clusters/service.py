"""Creation and summaries of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from admin_api.clusters import resilience
from admin_api.clusters.models import (
    AlarmView,
    BrokerCounts,
    BroughtBackPartition,
    BroughtBackTopics,
    ClusterOverview,
    ControllerSummary,
    MetadataRecovery,
    NewCluster,
    PartitionCounts,
    RecoveredMetadata,
    SetAsideLogView,
    TopicsToBringBack,
    UndecidedPartition,
)
from admin_api.clusters.resilience import ResilienceSummary
from admin_api.clusters.skew import SkewSummary, skew_of
from admin_api.http.answers import Answer
from admin_api.http.models import SilenceMark, last_change, timestamp
from admin_api.http.problems import refusal_problem
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, submit
from controller.face.cluster import (
    CRITICAL_ALARMS,
    GROUP_ALARMS,
    Alarm,
    ClusterImage,
    Engine,
    Entity,
    KnownCluster,
    brokers_of,
    status_of,
)
from controller.face.commands import (
    BringBackTopics,
    ClusterExists,
    RecoverMetadata,
    Refusal,
    TopicsBroughtBack,
)
from controller.face.settings import CLUSTER_SETTINGS, checked_configs, is_cluster_protected
from controller.face.webhooks import Silence, silence_of, subject_of
from springtide.contract.partition_state import PartitionKey
from springtide.contract.session import BrokerStatus


async def create_cluster(services: Services, body: NewCluster, attempt: Attempt) -> Answer:
    engine = services.engine
    configs = checked_configs(body.configs, CLUSTER_SETTINGS)
    if isinstance(configs, Refusal):
        raise refusal_problem(configs)
    body = body.model_copy(update={"configs": configs})
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
    view = engine.cluster(body.name)
    return Answer.of(
        201,
        cluster_view(engine, body.name, view, look=await look_at(services, body.name, view)),
        version=version_of(body.name, view),
        Location=f"/clusters/{body.name}",
    )


async def recover_metadata(engine: Engine, cluster: str, body: MetadataRecovery, attempt: Attempt) -> Answer:
    reply = await engine.recover_metadata(
        cluster,
        RecoverMetadata(**attempt.event, gone_brokers=tuple(body.gone_brokers)),
    )
    if isinstance(reply, Refusal):
        raise refusal_problem(reply)
    return Answer.of(200, RecoveredMetadata.of(reply, undecided=_undecided(reply.undecided)))


async def bring_back(engine: Engine, cluster: str, body: TopicsToBringBack, attempt: Attempt) -> Answer:
    event = BringBackTopics(
        **attempt.event, topic_ids=tuple(body.topic_ids), gone_brokers=tuple(body.gone_brokers)
    )
    return brought_back(await submit(engine, cluster, event, TopicsBroughtBack))


def brought_back(reply: TopicsBroughtBack) -> Answer:
    """Return the answer of what brings topics back, from quarantine or from those that were deleted."""
    view = BroughtBackTopics(
        topics=[topic.topic for topic in reply.topics],
        partitions=[
            BroughtBackPartition.of(state, whole_replica=next(iter((*state.isr, *state.elr)), None))
            for state in reply.partitions
        ],
        undecided=_undecided(reply.undecided),
        dry_run=reply.dry_run,
    )
    return Answer.of(200, view)


def _undecided(keys: Sequence[PartitionKey]) -> list[UndecidedPartition]:
    return [UndecidedPartition(topic_id=topic_id, partition=partition) for topic_id, partition in keys]


def set_aside_views(engine: Engine, cluster: str) -> list[SetAsideLogView]:
    known = engine.cluster(cluster).image.topics
    return [
        SetAsideLogView.of(
            log,
            broker_id=broker_id,
            leader_epoch=_if_known(log.leader_epoch),
            log_start_offset=_if_known(log.log_start_offset),
            log_end_offset=_if_known(log.log_end_offset),
            high_watermark=_if_known(log.high_watermark),
            since=None if log.since_ms < 0 else timestamp(log.since_ms),
            can_come_back=log.is_whole and log.topic_id not in known,
        )
        for broker_id, logs in engine.cluster(cluster).set_aside().items()
        for log in logs
    ]


def _if_known(number: int) -> int | None:
    return None if number < 0 else number


def version_of(name: str, view: KnownCluster) -> str:
    """Return the version of the cluster's own row. Brokers and topics have their own versions."""
    return str(view.version_of(Entity.CLUSTER, name))


def empty_view(engine: Engine, body: NewCluster, cluster_id: str) -> ClusterOverview:
    """Return the cluster that a dry run would have created."""
    return ClusterOverview(
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
        controller=ControllerSummary(active_url=engine.leadership.active_url, epoch=engine.controller_epoch),
        resilience=resilience.summary(ClusterImage()),
        skew=skew_of(ClusterImage(), {}),
        last_change=None,
    )


class ClusterLook(NamedTuple):
    """What needs a longer look at every partition of a cluster."""

    resilience: ResilienceSummary
    skew: SkewSummary


async def look_at(services: Services, cluster: str, view: KnownCluster) -> ClusterLook:
    """Look at copies, beside the controller's work."""
    image, lags = view.image.rows(), view.lags()
    return await services.database.compute(
        lambda: ClusterLook(resilience.summary(image), skew_of(image, lags))
    )


def cluster_view(
    engine: Engine, name: str, view: KnownCluster, *, look: ClusterLook | None = None
) -> ClusterOverview:
    image = view.image
    partitions = partition_counts(image)
    statuses = [status_of(workers) for workers in brokers_of(image).values()]
    up = {code for code, count in view.alarm_counts().items() if count}
    if view.went_back is not None:
        health = "metadata_went_back"
    elif partitions.leaderless or partitions.under_min_isr or up & CRITICAL_ALARMS:
        health = "critical"
    elif partitions.under_replicated or BrokerStatus.FENCED in statuses or up - GROUP_ALARMS:
        health = "degraded"
    else:
        health = "ok" if view.as_of_ms is None else "unknown"  # a standby hears of no alarm
    return ClusterOverview(
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
        controller=ControllerSummary(active_url=engine.leadership.active_url, epoch=engine.controller_epoch),
        resilience=None if look is None else look.resilience,
        skew=None if look is None else look.skew,
        last_change=last_change(view.last_change(Entity.CLUSTER, name)),
    )


def partition_counts(image: ClusterImage) -> PartitionCounts:
    """Return the partition counts of topics that are not being deleted."""
    return PartitionCounts(
        total=sum(topic.partitions for topic in image.topics.values() if not topic.deleting),
        leaderless=len(image.leaderless),
        under_min_isr=len(image.below_min),
        under_replicated=sum(key[0] in image.topics for key in image.under_replicated),
        leader_not_preferred=len(image.not_preferred),
    )


def alarm_view(
    image: ClusterImage, alarm: Alarm, silences: Sequence[Silence] = (), *, wall_ms: int = 0
) -> AlarmView:
    found = silence_of(silences, subject_of(image, alarm), wall_ms)
    topic = image.topics.get(alarm.key.topic_id) if alarm.key.topic_id is not None else None
    return AlarmView.of(
        alarm.key,
        topic=None if topic is None else topic.topic,
        detail=alarm.detail,
        follows={code.value: count for code, count in alarm.follows.items()},
        silenced=None if found is None else SilenceMark.of(found, until=timestamp(found.until_ms)),
    )
