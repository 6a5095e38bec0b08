"""/clusters/{cluster}/resilience"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.answers import AGE_HEADERS, show
from admin_api.clusters.routes import ClusterPath
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, page_of
from admin_api.problem import problems
from admin_api.resilience import service
from admin_api.resilience.models import ConditionWord, LoseTerm, ResilienceView, loss_view, tally_view
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from controller.core.resilience import Condition, PartitionLoss, lose, tally

router = APIRouter(route_class=StrictRoute, tags=["Clusters"])

LOSE_TERMS_MAX = 50


@router.get(
    "/clusters/{cluster}/resilience",
    operation_id="getResilience",
    summary="Ask what a loss would do",
    response_model=ResilienceView,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found", "unknown_broker")},
)
async def get_resilience(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    terms: Annotated[
        list[LoseTerm],
        Query(
            alias="lose",
            min_length=1,
            max_length=LOSE_TERMS_MAX,
            description="what is lost; repeat it for what is lost together",
            examples=[["broker:3"]],
        ),
    ],
    state: Annotated[
        ConditionWord | None, Query(description="list only partitions that would be in this state")
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """Show the effects of losing these brokers, hosts or racks now, all at once: which partitions would go
    offline, stop accepting acks=all, or continue with fewer replicas. The election rules themselves decide
    this. Nothing is changed."""
    view = services.engine.image(cluster)
    image = view.image
    lost = service.brokers_lost(image, terms)
    losses = lose(image, lost)
    chosen = [loss for loss in losses if state is None or loss.condition.name.lower() == state]
    page, token = page_of(
        chosen, _position, name="resilience", kinds=(int, str, int), limit=limit, token=page_token
    )
    body = ResilienceView(
        lost_brokers=list(lost),
        down_already=[b for b in lost if image.brokers[b].fenced],
        partitions=tally_view(tally(losses)),
        items=[loss_view(loss) for loss in page],
        next_page_token=token,
    )
    return show(request, body, view=view)


def _position(loss: PartitionLoss) -> tuple[int, str, int]:
    return (Condition.LEADERLESS - loss.condition, loss.after.topic, loss.after.partition)
