"""/clusters/{cluster}/heat-map: how the partitions of each topic lie on the brokers.

It costs what it shows: topics are ordered by what is known of each as a whole, and only the partitions of
those on the page are looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final, Literal

import anyio.lowlevel
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from admin_api.http.answers import AGE_HEADERS, show
from admin_api.http.models import ClusterPath, View, ViewList
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from controller.face.cluster import KnownCluster, brokers_of

router = APIRouter(route_class=StrictRoute)
#: Partitions counted before other tasks get a turn.
PARTITIONS_PER_TURN: Final = 2_000

Measure = Literal["replicas", "leaders", "bytes"]


class HeatRow(View):
    """A topic, and what it puts on each broker."""

    topic: str = Field(examples=["orders"])
    values: list[int | None] = Field(
        description="one for each of `brokers`; null: no leader has reported a size, as on a standby",
        examples=[[4, 4, 4]],
    )
    unknown_partitions: int = Field(
        description="left out of bytes, because their leaders have not reported", examples=[0]
    )


class HeatMap(ViewList[HeatRow]):
    """Topics over brokers, the largest topics first."""

    measure: Measure
    brokers: list[int] = Field(description="each with all its workers", examples=[[1, 2, 3]])


@router.get(
    "/clusters/{cluster}/heat-map",
    operation_id="getHeatMap",
    tags=["Brokers"],
    summary="Look at how topics lie on brokers",
    response_model=HeatMap,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def get_heat_map(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    measure: Annotated[Measure, Query(description="what is counted on each broker")] = "replicas",
    paging: Paged,
) -> Response:
    """Show how many replicas or leaders, or how many bytes, each topic has on each broker: the topics first
    that have most of it. Sizes are known to the active controller only."""
    view = services.engine.cluster(cluster)
    weights = _weights(view, measure)
    topic_ids, token = paging.page_of(
        weights,
        lambda topic_id: (weights[topic_id], topic_id),
        name=f"heat {measure}",
        kinds=(int, str),
        descending=True,
    )
    brokers = list(brokers_of(view.image))
    rows = [await _row(view, topic_id, brokers, measure) for topic_id in topic_ids]
    items = [row for row in rows if row is not None]
    return show(
        request, HeatMap(items=items, next_page_token=token, measure=measure, brokers=brokers), view=view
    )


def _weights(view: KnownCluster, measure: Measure) -> dict[str, int]:
    """Return how much of it each topic has, about: what orders the topics."""
    topics = [topic for topic in view.image.topics.values() if not topic.deleting]
    if measure == "bytes":
        return {topic.topic_id: view.topic_size(topic.topic_id) or 0 for topic in topics}
    if measure == "leaders":
        return {topic.topic_id: topic.partitions for topic in topics}
    return {topic.topic_id: topic.partitions * topic.replication_factor for topic in topics}


async def _row(view: KnownCluster, topic_id: str, brokers: list[int], measure: Measure) -> HeatRow | None:
    """Return the row; None if the topic was removed meanwhile."""
    image = view.image
    topic = image.topics.get(topic_id)
    if topic is None:
        return None
    owners = {broker.broker_id: broker.owner_id for broker in image.brokers.values()}
    found: Counter[int] = Counter()
    unknown = 0
    states = image.partitions_of(topic_id)
    for number, state in enumerate(states, start=1):
        weight = 1
        if measure == "bytes":
            lag = view.lag((topic_id, state.partition))
            unknown += lag is None
            weight = 0 if lag is None else lag.size_bytes
        for broker_id in (state.leader,) if measure == "leaders" else state.replicas:
            found[owners.get(broker_id, broker_id)] += weight
        if number % PARTITIONS_PER_TURN == 0:
            await anyio.lowlevel.checkpoint()
    is_known = unknown < len(states) or not unknown
    return HeatRow(
        topic=topic.topic,
        values=[found[broker_id] if is_known else None for broker_id in brokers],
        unknown_partitions=unknown,
    )
