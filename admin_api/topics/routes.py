"""/topics and /clusters/{cluster}/topics"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from admin_api.http.answers import (
    AGE_HEADERS,
    ETAG_HEADERS,
    REPLAYED_HEADERS,
    accepted,
    show,
)
from admin_api.http.conditions import IfMatch
from admin_api.http.models import (
    NAMES_MAX,
    ClusterPath,
    ReasonQuery,
    Search,
    TopicName,
    TopicPath,
    is_found,
)
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, WRITE_PROBLEMS, problems
from admin_api.http.rights import ALTER_CLUSTER, Area, Right
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Write
from admin_api.operations.models import OperationView
from admin_api.plans.models import PlanView
from admin_api.topics import service
from admin_api.topics.models import (
    ChangeTopic,
    NewTopic,
    TopicDeletionPlan,
    TopicDetail,
    TopicList,
    TopicPlan,
    TopicView,
    check_one_change,
)
from springtide.security.acls.model import Operation

router = APIRouter(route_class=StrictRoute, tags=["Topics"])

TopicSort = Literal[
    "name",
    "-name",
    "partitions",
    "-partitions",
    "size",
    "-size",
    "bytes_in",
    "-bytes_in",
    "bytes_out",
    "-bytes_out",
    "groups",
    "-groups",
]

_CREATION: dict[int | str, dict[str, Any]] = {
    201: {
        "description": "Created",
        "headers": {"Location": {"description": "the topic", "schema": {"type": "string"}}}
        | ETAG_HEADERS
        | REPLAYED_HEADERS,
    },
    200: {
        "model": TopicView | TopicPlan,
        "description": "Dry run: what would be created; or, with `if_not_exists`, the topic that exists",
    },
    **problems(
        "cluster_not_found",
        "topic_already_exists",
        "topic_name_collision",
        "reserved_topic",
        "replication_factor_too_large",
        "invalid_replica_assignment",
        "unknown_config",
        "invalid_config",
        *WRITE_PROBLEMS,
    ),
}


@router.post(
    "/topics",
    operation_id="createTopic",
    summary="Create a topic",
    status_code=201,
    response_model=TopicView,
    responses=_CREATION,
)
async def create_topic(body: NewTopic, services: Serving, write: Write) -> Response:
    """Create a topic, with replicas placed so that leaders, replicas and the load of a failed broker are
    spread evenly; the cluster may be left out if there is only one. If a topic of this name is being deleted,
    the answer waits for that, 15 seconds at the longest."""
    cluster = service.cluster_for(services.engine, body)
    return await write.carry_out(
        service.creation_of(cluster, body), partial(service.create_topic, services, cluster, body)
    )


@router.post(
    "/clusters/{cluster}/topics",
    operation_id="createTopicInCluster",
    summary="Create a topic in this cluster",
    status_code=201,
    response_model=TopicView,
    responses=_CREATION,
)
async def create_topic_in_cluster(
    body: NewTopic, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Create a topic in this cluster, as POST /topics does."""
    service.check_path_agrees(cluster, body)
    write.need(Right(Area.TOPIC, Operation.CREATE, body.name), cluster)
    return await write.carry_out(
        service.creation_of(cluster, body), partial(service.create_topic, services, cluster, body)
    )


@router.get(
    "/clusters/{cluster}/topics",
    operation_id="listTopics",
    summary="List topics",
    response_model=TopicList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def list_topics(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    search: Search = None,
    topic: Annotated[
        list[TopicName],
        Query(default_factory=list, max_length=NAMES_MAX, description="only these; may be repeated"),
    ],
    sort: Annotated[
        TopicSort, Query(description="`-` before it: descending; what is not known comes below 0")
    ] = "name",
    paging: Paged,
) -> Response:
    """List a cluster's topics, with what their leaders hold and what passes through them. No broker is
    asked."""
    view = services.engine.cluster(cluster)
    ids, named = view.image.topic_ids, frozenset(topic)
    states, token = paging.page_of(
        (
            view.image.topics[topic_id]
            for name, topic_id in ids.items()
            if is_found(search, name) and (not named or name in named)
        ),
        lambda state: (service.sort_value(view, state, sort), state.topic),
        name=f"topics {sort}",
        kinds=(int, str),
        descending=sort.startswith("-"),
    )
    items = [service.show_topic(cluster, view, state) for state in states]
    return show(request, TopicList(items=items, next_page_token=token), view=view)


@router.get(
    "/clusters/{cluster}/topics/{topic}",
    operation_id="getTopic",
    summary="Look at a topic and who reads it",
    response_model=TopicDetail,
    responses={
        200: {"headers": AGE_HEADERS | ETAG_HEADERS},
        **problems("cluster_not_found", "topic_not_found"),
    },
)
async def get_topic(request: Request, services: Serving, cluster: ClusterPath, topic: TopicPath) -> Response:
    """Show a topic with the counts of its partitions and the groups that read it. Answers 404 if no topic has
    this name."""
    view = services.engine.cluster(cluster)
    state = service.find_topic(view, cluster, topic)
    version = service.version_of(view, state)
    body = service.topic_detail(services, cluster, view, state)
    return show(request, body, view=view, version=version)


@router.patch(
    "/clusters/{cluster}/topics/{topic}",
    operation_id="changeTopic",
    summary="Give a topic more partitions, or another replication factor",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        TopicPlan | PlanView,
        "Dry run: the topic with its new partitions; of a replication factor, the plan",
        "cluster_not_found",
        "topic_not_found",
        "reserved_topic",
        "invalid_partitions",
        "replication_factor_too_large",
        "invalid_replica_assignment",
        "no_live_replica",
        "no_improvement",
        "plan_infeasible",
        "plan_executed",
        "policy_violated",
        *CONDITION_PROBLEMS,
    ),
)
async def change_topic(
    *,
    body: ChangeTopic,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
) -> Response:
    """Give a topic more `partitions`, after which a producer that chooses by key sends later records of a key
    to other partitions; or another `replication_factor`. The second is an operation that carries out a plan,
    so that it can be throttled, scheduled, paused, cancelled and undone."""
    check_one_change(body)
    is_factor = body.replication_factor is not None
    if is_factor:
        write.need(ALTER_CLUSTER, cluster)
    change = service.change_replication_factor if is_factor else service.add_partitions
    return await write.carry_out(
        service.change_of(cluster, topic, body),
        partial(change, services, cluster, topic, body=body, condition=condition),
    )


@router.delete(
    "/clusters/{cluster}/topics/{topic}",
    operation_id="deleteTopic",
    summary="Delete a topic",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        TopicDeletionPlan,
        "Dry run: what would be deleted",
        "cluster_not_found",
        "topic_not_found",
        "deletion_protected",
        "reserved_topic",
        *CONDITION_PROBLEMS,
    ),
)
async def delete_topic(
    *,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    topic: TopicPath,
    reason: ReasonQuery = None,
) -> Response:
    """Delete a topic, and answer when no broker can acknowledge a record in it any more and its name is free,
    or after 15 seconds if a broker can't be heard from. Each broker deletes the data when it is up; the
    operation lasts until all have confirmed."""
    asked = service.deletion_of(cluster, topic, reason)
    return await write.carry_out(asked, partial(service.delete_topic, services, cluster, topic, condition))
