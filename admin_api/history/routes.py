"""/clusters/{cluster}/history, of the cluster and of one thing in it.

The group's id comes last, as in all paths, because it may hold any characters.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from admin_api.brokers.service import find_broker
from admin_api.groups.service import GroupPath
from admin_api.history.models import (
    BrokerHistory,
    ClusterHistory,
    GroupHistory,
    TopicHistory,
    broker_history,
    cluster_history,
    group_history,
    topic_history,
)
from admin_api.http.answers import show
from admin_api.http.models import BrokerPath, ClusterPath, TopicPath
from admin_api.http.problems import ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.topics.service import find_topic
from controller.face.cluster import ids_of

router = APIRouter(route_class=StrictRoute)
_PREFIX = "/clusters/{cluster}/history"


@router.get(
    _PREFIX,
    operation_id="getClusterHistory",
    tags=["Clusters"],
    summary="Look at the last hour of a cluster",
    response_model=ClusterHistory,
    responses=problems("cluster_not_found"),
)
async def get_cluster_history(request: Request, services: Serving, cluster: ClusterPath) -> Response:
    """Show what went in and out, what lacked replicas and how far groups were behind, in samples of half a
    minute. Answered by the active controller only, from what members reported to it since it is active."""
    view = services.engine.cluster(cluster)
    return show(request, cluster_history(view.last_hour()), view=view)


@router.get(
    _PREFIX + "/brokers/{broker_id:int}",
    operation_id="getBrokerHistory",
    tags=["Brokers"],
    summary="Look at the last hour of a broker",
    response_model=BrokerHistory,
    responses=problems("cluster_not_found", "broker_not_found"),
)
async def get_broker_history(
    request: Request, services: Serving, cluster: ClusterPath, broker_id: BrokerPath
) -> Response:
    """Show what the broker's leaders took in and gave out, its requests, connections and disk; nothing is
    known of the time in which it was not heard. Answered by the active controller only."""
    view = services.engine.cluster(cluster)
    find_broker(view, cluster, broker_id)
    return show(request, broker_history(view.last_hour(), ids_of(view.image, broker_id)), view=view)


@router.get(
    _PREFIX + "/topics/{topic}",
    operation_id="getTopicHistory",
    tags=["Topics"],
    summary="Look at the last hour of a topic",
    response_model=TopicHistory,
    responses=problems("cluster_not_found", "topic_not_found"),
)
async def get_topic_history(
    request: Request, services: Serving, cluster: ClusterPath, topic: TopicPath
) -> Response:
    """Show what went in and out of the topic, and its size; of more than 10,000 topics that are active in one
    sample, the most active are known. Answered by the active controller only."""
    view = services.engine.cluster(cluster)
    topic_id = find_topic(view, cluster, topic).topic_id
    return show(request, topic_history(view.last_hour(), topic_id), view=view)


@router.get(
    _PREFIX + "/groups/{group_id:whole}",
    operation_id="getGroupHistory",
    tags=["Groups"],
    summary="Look at the last hour of a consumer group",
    response_model=GroupHistory,
    responses=problems("cluster_not_found", "group_not_found"),
)
async def get_group_history(
    request: Request, services: Serving, cluster: ClusterPath, group_id: GroupPath
) -> Response:
    """Show how far the group was behind, as its coordinator told it: from the group's newest commits to the
    ends of the logs. Answered by the active controller only; 404 if no coordinator has told it of the
    group."""
    view = services.engine.cluster(cluster)
    hour = view.last_hour()
    found = hour.of_group(group_id)
    if found is None:
        detail = (
            f"no coordinator has told the controller of a group {group_id[:100]!r} with committed offsets"
        )
        raise ProblemError("group_not_found", detail)
    return show(request, group_history(hour, found), view=view)
