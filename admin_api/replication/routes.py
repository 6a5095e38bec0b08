"""/clusters/{cluster}/partitions and /clusters/{cluster}/replication"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.answers import AGE_HEADERS, show
from admin_api.clusters.routes import ClusterPath
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, page_of
from admin_api.partitions.models import PartitionList
from admin_api.partitions.routes import StateWord
from admin_api.partitions.service import show_partition, state_word
from admin_api.problem import problems
from admin_api.replication.models import ReplicationView
from admin_api.replication.service import living, severity, sum_up
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute

router = APIRouter(route_class=StrictRoute)


@router.get(
    "/clusters/{cluster}/partitions",
    operation_id="listPartitionsOfCluster",
    tags=["Partitions"],
    summary="List a cluster's partitions, worst first",
    response_model=PartitionList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def list_partitions(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    state: Annotated[StateWord | None, Query(description="only partitions in this state")] = None,
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """List the cluster's partitions, the worst state first: without a leader, refusing acks=all, with a
    leader that has not confirmed its log, lacking a replica, healthy. Partitions in the same state are
    ordered by topic and number."""
    view = services.engine.image(cluster)
    page, token = page_of(
        (p for p in living(view.image) if state is None or state_word(p) == state),
        lambda p: (severity(p), p.topic, p.partition),
        name="partitions of the cluster",
        kinds=(int, str, int),
        limit=limit,
        token=page_token,
    )
    items = [show_partition(services.engine, cluster, view, p) for p in page]
    return show(request, PartitionList(items=items, next_page_token=token), view=view)


@router.get(
    "/clusters/{cluster}/replication",
    operation_id="getReplication",
    tags=["Brokers"],
    summary="Look at what each broker carries, and how far its followers are",
    response_model=ReplicationView,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def get_replication(request: Request, services: Serving, cluster: ClusterPath) -> Response:
    """Show the cluster's replication. Lags and sizes are those that leaders last reported. Only the active
    controller receives reports: a standby shows placement only."""
    view = services.engine.image(cluster)
    return show(request, sum_up(services.engine, cluster, view), view=view)
