"""/clusters/{cluster}/missing-topics: the topics that clients ask for and that are not there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastapi import APIRouter, Request, Response
from pydantic import Field

from admin_api.http.answers import show
from admin_api.http.models import ClusterPath, View, ViewList, timestamp
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from controller.face.cluster import Engine
from springtide.contract.missing_topics import OTHERS, MissingTopic

router = APIRouter(route_class=StrictRoute, tags=["Topics"])

OLD_MS: Final = 3_600_000
"""A name that no client has asked for since is left out: its node may be gone for good."""


class MissingTopicClient(View):
    """Who asked last at one of the nodes."""

    client_id: str = Field(
        description="empty: it has none; its beginning if it is long", examples=["rsyslog"]
    )
    software: str = Field(description="as the client names it", examples=["librdkafka 2.6.1"])


class MissingTopicView(View):
    """A topic that clients ask for and that is not there."""

    topic: str = Field(
        description=f"`{OTHERS}`: further names, of which a node does not remember each", examples=["lines"]
    )
    asked: int = Field(description="how often, at all nodes", examples=[42])
    since: str = Field(description="what is counted begins here, at most two hours of asking ago")
    last_asked: str
    clients: list[MissingTopicClient] = Field(description="who asked last at each node, each once")
    nodes: list[int] = Field(description="brokers and coordinators that were asked", examples=[[1, 2]])


class MissingTopicList(ViewList[MissingTopicView]): ...


@router.get(
    "/clusters/{cluster}/missing-topics",
    operation_id="listMissingTopics",
    summary="List the topics that clients ask for and that are not there",
    response_model=MissingTopicList,
    responses=problems("cluster_not_found"),
)
async def list_missing_topics(
    request: Request, services: Serving, cluster: ClusterPath, paging: Paged
) -> Response:
    """List, by name, what clients asked for at least three times, and in the last hour; each node tells the
    names that are asked for most. Answered by the active controller only."""
    view = services.engine.cluster(cluster)
    items, token = paging.page_of(
        _views(services.engine, cluster, since_ms=services.clock.now_wall_ms() - OLD_MS),
        lambda found: (found.topic,),
        name="missing_topics",
        kinds=(str,),
    )
    return show(request, MissingTopicList(items=items, next_page_token=token), view=view)


def _views(engine: Engine, cluster: str, *, since_ms: int) -> Iterable[MissingTopicView]:
    image = engine.cluster(cluster).image
    by_topic: dict[str, list[tuple[int, MissingTopic]]] = {}
    for member, told in sorted(engine.cluster(cluster).missing_topics().items()):
        broker = image.brokers.get(member)
        node = member if broker is None else broker.owner_id
        for each in told:
            if each.topic not in image.topic_ids and each.last_ms >= since_ms:
                by_topic.setdefault(each.topic, []).append((node, each))
    for topic, found in by_topic.items():
        clients = dict.fromkeys((each.client_id, each.software) for _, each in found)
        yield MissingTopicView(
            topic=topic,
            asked=sum(each.asked for _, each in found),
            since=timestamp(min(each.since_ms for _, each in found)),
            last_asked=timestamp(max(each.last_ms for _, each in found)),
            clients=[MissingTopicClient(client_id=name, software=software) for name, software in clients],
            nodes=list(dict.fromkeys(node for node, _ in found)),
        )
