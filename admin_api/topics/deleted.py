"""/clusters/{cluster}/deleted-topics: deleted topics whose records are kept, to be restored or purged."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field

from admin_api.clusters.models import BroughtBackTopics
from admin_api.clusters.service import brought_back
from admin_api.http.answers import Answer, accepted, done, show
from admin_api.http.models import ClusterPath, Reason, RequestBody, TopicName, View, ViewList, timestamp
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.rights import Area, Right
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, Write, follow, submit
from admin_api.operations.models import OperationView
from controller.face.cluster import Engine, Entity
from controller.face.commands import (
    PurgeTopic,
    RestoreTopic,
    TopicDeletionStarted,
    TopicsBroughtBack,
)
from controller.face.operations import OperationState, TopicDelete, begin_topic_delete
from springtide.contract.partition_state import KeptTopic, TopicState
from springtide.security.acls.model import Operation

router = APIRouter(route_class=StrictRoute, tags=["Topics"])

TopicIdPath = Annotated[
    str,
    Path(description="the topic's id", examples=["Zk1lV0pCTEq4nY6mXw2v3A"], pattern=r"^[A-Za-z0-9_-]{1,64}$"),
]


class DeletedTopicView(View):
    """A deleted topic whose records are kept."""

    topic_id: str
    name: str
    partitions: int
    replication_factor: int
    size_bytes: int = Field(description="on all brokers together, by what their leaders reported last")
    deleted_at: str
    deleted_by: str
    kept_until: str = Field(description="then brokers delete its records")
    name_is_free: bool = Field(
        description="false: not all of its leaders have stopped, so it can't be restored"
    )


class DeletedTopicList(ViewList[DeletedTopicView]): ...


class TopicToRestore(RequestBody):
    """How to restore a deleted topic."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "deleted by mistake"}]})

    name: TopicName | None = Field(
        default=None, description="another name, where a topic has its own; left out: the one that it had"
    )
    reason: Reason | None = None


class TopicToPurge(RequestBody):
    """Why a deleted topic is purged."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the disks are full"}]})

    reason: Reason | None = None


class TopicPurgePlan(View):
    """The deleted topic whose records would be deleted now."""

    topic: DeletedTopicView
    waits_for_brokers: list[int] = Field(description="each confirms that its replicas are gone")


@router.get(
    "/clusters/{cluster}/deleted-topics",
    operation_id="listDeletedTopics",
    summary="List deleted topics whose records are kept",
    response_model=DeletedTopicList,
    responses=problems("cluster_not_found"),
)
async def list_deleted_topics(
    request: Request, services: Serving, cluster: ClusterPath, paging: Paged
) -> Response:
    """List, by name and id, the topics that were deleted while `deleted.topic.retention.ms` was above 0 and
    whose time is not over."""
    view = services.engine.cluster(cluster)
    topics = [view.image.topics[topic_id] for topic_id in list(view.image.kept)]
    items, token = paging.page_of(
        [_view(topic, topic.kept) for topic in topics if topic.kept],
        lambda topic: (topic.name, topic.topic_id),
        name="deleted_topics",
        kinds=(str, str),
    )
    return show(request, DeletedTopicList(items=items, next_page_token=token), view=view)


@router.post(
    "/clusters/{cluster}/deleted-topics/{topic_id:word}:restore",
    operation_id="restoreTopic",
    summary="Restore a deleted topic with its records",
    response_model=BroughtBackTopics,
    responses=done(
        "Restored; of a dry run, what would be",
        "cluster_not_found",
        "topic_not_found",
        "topic_already_exists",
        "topic_name_collision",
        "reserved_topic",
        "no_live_replica",
    ),
)
async def restore_topic(
    body: TopicToRestore, services: Serving, write: Write, cluster: ClusterPath, topic_id: TopicIdPath
) -> Response:
    """Restore a topic with its id, records, offsets and settings; partitions of which no broker vouches for
    every acknowledged record are `undecided`, and have no leader until an operator chooses one. It takes the
    right to delete the topic, and for another name the right to create that."""
    name = _name_of(services.engine, cluster, topic_id)
    write.need(Right(Area.TOPIC, Operation.DELETE, name), cluster)
    if body.name is not None:
        write.need(Right(Area.TOPIC, Operation.CREATE, body.name), cluster)
    asked = _asked(cluster, "restore_topic", topic_id, name, body, is_operation=False)
    return await write.carry_out(asked, partial(_restore, services.engine, cluster, topic_id, body))


@router.post(
    "/clusters/{cluster}/deleted-topics/{topic_id:word}:purge",
    operation_id="purgeTopic",
    summary="Delete the records of a deleted topic now",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        TopicPurgePlan, "Dry run: what would be deleted", "cluster_not_found", "topic_not_found"
    ),
)
async def purge_topic(
    body: TopicToPurge, services: Serving, write: Write, cluster: ClusterPath, topic_id: TopicIdPath
) -> Response:
    """Have brokers delete the records that they keep of a deleted topic, which can't be restored then. It
    takes the right to delete the topic."""
    name = _name_of(services.engine, cluster, topic_id)
    write.need(Right(Area.TOPIC, Operation.DELETE, name), cluster)
    asked = _asked(cluster, "purge_topic", topic_id, name, body, is_operation=True)
    return await write.carry_out(asked, partial(_purge, services, cluster, topic_id))


def _view(topic: TopicState, kept: KeptTopic) -> DeletedTopicView:
    return DeletedTopicView.of(
        topic,
        name=topic.topic,
        size_bytes=kept.size_bytes,
        deleted_at=timestamp(kept.deleted_at_ms),
        deleted_by=kept.deleted_by,
        kept_until=timestamp(kept.until_ms),
    )


def _name_of(engine: Engine, cluster: str, topic_id: str) -> str:
    """Return the name by which rights on the topic count; the id if there is no such topic."""
    topic = engine.cluster(cluster).image.topics.get(topic_id)
    return topic_id if topic is None else topic.topic


def _asked(
    cluster: str,
    action: str,
    topic_id: str,
    name: str,
    body: TopicToRestore | TopicToPurge,
    *,
    is_operation: bool,
) -> Asked:
    return Asked(
        cluster=cluster,
        action=action,
        entity=Entity.TOPIC,
        entity_id=name,
        body={"topic_id": topic_id} | body.model_dump(mode="json"),
        reason=body.reason,
        topic=name,
        is_operation=is_operation,
    )


async def _restore(
    engine: Engine, cluster: str, topic_id: str, body: TopicToRestore, attempt: Attempt
) -> Answer:
    """Restore the topic. One that was restored before is answered as it is: the first answer may be lost."""
    view = engine.cluster(cluster)
    topic, change = view.image.topics.get(topic_id), view.last_change(Entity.TOPIC, topic_id)
    if (
        topic is not None
        and not topic.deleting
        and change is not None
        and change.cause == "topic_restored"
        and body.name in (None, topic.topic)
    ):
        states = view.image.partitions_of(topic_id)
        return brought_back(
            TopicsBroughtBack(topics=(topic,), partitions=states, undecided=(), dry_run=attempt.dry_run)
        )
    event = RestoreTopic(**attempt.event, topic_id=topic_id, topic=body.name)
    return brought_back(await submit(engine, cluster, event, TopicsBroughtBack))


async def _purge(services: Services, cluster: str, topic_id: str, attempt: Attempt) -> Answer:
    engine = services.engine
    before = engine.cluster(cluster).image.topics.get(topic_id)
    event = PurgeTopic(**attempt.operation_event, topic_id=topic_id)
    started = await submit(engine, cluster, event, TopicDeletionStarted)
    if attempt.dry_run and before is not None and before.kept:
        plan = TopicPurgePlan(topic=_view(before, before.kept), waits_for_brokers=list(started.waiting_for))
        return Answer.of(200, plan)
    work = begin_topic_delete(TopicDelete(topic=started.state.topic, topic_id=topic_id))
    return await follow(services, cluster, attempt, work, OperationState.RUNNING)
