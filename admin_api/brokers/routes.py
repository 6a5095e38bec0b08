"""/clusters/{cluster}/brokers"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Path, Query, Request, Response

from admin_api.answers import AGE_HEADERS, ETAG_HEADERS, show
from admin_api.brokers import service
from admin_api.brokers.models import AddBrokersBody, BrokerList, BrokerPlan, BrokerView
from admin_api.clusters.routes import WRITE_PROBLEMS, ClusterPath
from admin_api.names import BrokerId
from admin_api.operations.views import LOCATION_HEADERS, OperationView
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, page_of
from admin_api.problem import ProblemError, problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from admin_api.writes import REPLAYED_HEADERS, Asked, Write
from controller.audit.change import Entity
from controller.contract.session import BrokerStatus

router = APIRouter(route_class=StrictRoute, tags=["Brokers"])

BrokerSort = Literal["broker_id", "-broker_id", "replicas", "-replicas", "leaders", "-leaders"]
BrokerPath = Annotated[BrokerId, Path(examples=[1])]

_EXAMPLES = {
    "one": {
        "summary": "One broker",
        "value": {
            "broker_id": 4,
            "endpoint": "store4:9092",
            "rack": "r2",
            "reason": "capacity for Q4",
            "rebalance": {"mode": "new_only"},
        },
    },
    "several": {
        "summary": "Three brokers, all or none",
        "value": {
            "brokers": [
                {"broker_id": 1, "endpoint": "store1:9092"},
                {"broker_id": 2, "endpoint": "store2:9092"},
                {"broker_id": 3, "endpoint": "store3:9092"},
            ],
            "reason": "first brokers of prod",
        },
    },
}


@router.post(
    "/clusters/{cluster}/brokers",
    operation_id="addBrokers",
    summary="Add brokers",
    status_code=202,
    response_model=OperationView,
    responses={
        202: {
            "description": "Accepted: follow the operation",
            "headers": LOCATION_HEADERS | REPLAYED_HEADERS,
        },
        200: {"model": BrokerPlan, "description": "Dry run: what would be done"},
        **problems("cluster_not_found", "broker_id_in_use", "broker_operation_running", *WRITE_PROBLEMS),
    },
)
async def add_brokers(
    body: Annotated[AddBrokersBody, Body(openapi_examples=_EXAMPLES)],
    services: Serving,
    write: Write,
    cluster: ClusterPath,
) -> Response:
    """Lets brokers hold data. Order does not matter: the operation waits in `preflight` until every broker
    has been started and has registered at the endpoint stated here, and admits all of them at once. It never
    half-registers: at its deadline it fails and nothing has changed."""
    specs = service.specs_of(body)
    asked = Asked(
        cluster=cluster,
        action="add_brokers",
        entity=Entity.BROKER,
        entity_id=",".join(str(spec.broker_id) for spec in specs)[:300],
        body=body.model_dump(mode="json"),
        reason=body.reason,
        brokers=tuple(spec.broker_id for spec in specs),
        is_operation=True,
    )
    services.engine.image(cluster)
    return await write.carry_out(asked, partial(service.add_brokers, services, cluster, body))


@router.get(
    "/clusters/{cluster}/brokers",
    operation_id="listBrokers",
    summary="List brokers",
    response_model=BrokerList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def list_brokers(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    state: Annotated[BrokerStatus | None, Query(description="only brokers in this state")] = None,
    sort: Annotated[BrokerSort, Query(description="`-` before it: descending")] = "broker_id",
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """Those that wait to be added are listed, too."""
    view = services.engine.image(cluster)
    chosen = [b for b in view.image.brokers.values() if state is None or b.status is state]
    brokers, token = page_of(
        chosen,
        lambda broker: (service.sort_value(view, broker, sort), broker.broker_id),
        name=f"brokers {sort}",
        kinds=(int, int),
        limit=limit,
        token=page_token,
        descending=sort.startswith("-"),
    )
    items = [service.broker_view(view, broker) for broker in brokers]
    return show(request, BrokerList(items=items, next_page_token=token), view=view)


@router.get(
    "/clusters/{cluster}/brokers/{broker_id}",
    operation_id="getBroker",
    summary="Look at a broker",
    response_model=BrokerView,
    responses={
        200: {"headers": AGE_HEADERS | ETAG_HEADERS},
        **problems("cluster_not_found", "broker_not_found"),
    },
)
async def get_broker(
    request: Request, services: Serving, cluster: ClusterPath, broker_id: BrokerPath
) -> Response:
    view = services.engine.image(cluster)
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        raise ProblemError("broker_not_found", f"broker {broker_id} has not registered with {cluster!r}")
    version = str(view.version_of(Entity.BROKER, str(broker_id)))
    return show(request, service.broker_view(view, broker), view=view, version=version)
