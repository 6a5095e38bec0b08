"""/clusters/{cluster}/brokers"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Query, Request, Response

from admin_api.brokers import maintenance, service
from admin_api.brokers.models import (
    ADDED_BROKER,
    AddBrokersBody,
    BrokerList,
    BrokerPlan,
    BrokerView,
    ChangeBroker,
    DrainBroker,
    MaintainBroker,
    MaintenancePlan,
)
from admin_api.http.answers import (
    AGE_HEADERS,
    ETAG_HEADERS,
    REPLAYED_HEADERS,
    accepted,
    done,
    show,
)
from admin_api.http.models import BrokerPath, ClusterPath, ReasonQuery, Search, is_found
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from admin_api.operations.models import OperationView
from admin_api.plans.models import PlanView
from controller.face.cluster import Entity, brokers_of, status_of
from controller.face.operations import endpoint_of

router = APIRouter(route_class=StrictRoute, tags=["Brokers"])

BrokerStatusWord = Literal["waiting", "fenced", "active", "shutting_down"]
BrokerSort = Literal[
    "broker_id",
    "-broker_id",
    "replicas",
    "-replicas",
    "leaders",
    "-leaders",
    "disk_free",
    "-disk_free",
    "disk_used",
    "-disk_used",
    "bytes_in",
    "-bytes_in",
    "bytes_out",
    "-bytes_out",
]

_MAINTENANCE_PROBLEMS = ("cluster_not_found", "broker_not_found", "ineligible_broker", *CONDITION_PROBLEMS)
_MAINTENANCE_ANSWERS = accepted(
    MaintenancePlan, "Dry run: the broker as it would be, and what would move", *_MAINTENANCE_PROBLEMS
)

_EXAMPLES = {
    "one": {
        "summary": "One broker",
        "value": ADDED_BROKER,
    },
    "replacement": {
        "summary": "One in the places of another, which may be dead",
        "value": {
            "broker_id": 5,
            "endpoint": "store5:9092",
            "replaces": 3,
            "reason": "store3's mainboard is gone",
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
    responses=accepted(
        BrokerPlan,
        "Dry run: what would be done",
        "cluster_not_found",
        "broker_id_in_use",
        "broker_operation_running",
    ),
)
async def add_brokers(
    body: Annotated[AddBrokersBody, Body(openapi_examples=_EXAMPLES)],
    services: Serving,
    write: Write,
    cluster: ClusterPath,
) -> Response:
    """Let brokers hold data and give them their share as `rebalance` says; a broker that `replaces` another
    takes all its places. The operation waits in `preflight` until every broker, started before or after this
    request, has registered at this endpoint and passed the checks that `blocked` lists; then all are admitted
    at once."""
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
    state: Annotated[BrokerStatusWord | None, Query(description="only brokers in this state")] = None,
    search: Search = None,
    sort: Annotated[
        BrokerSort,
        Query(
            description="`-` before it: descending; `disk_used`: by the share that is used; what is not "
            "known comes below 0"
        ),
    ] = "broker_id",
    paging: Paged,
) -> Response:
    """List the cluster's brokers, including those that wait to be added. A name is here an id, an endpoint or
    a rack."""
    view = services.engine.cluster(cluster)
    known = brokers_of(view.image).values()
    chosen = [
        workers
        for workers in known
        if (state is None or status_of(workers) == state)
        and is_found(search, str(workers[0].owner_id), endpoint_of(workers[0]), workers[0].rack)
    ]
    brokers, token = paging.page_of(
        chosen,
        lambda workers: (service.sort_value(view, workers, sort), workers[0].owner_id),
        name=f"brokers {sort}",
        kinds=(int, int),
        descending=sort.startswith("-"),
    )
    items = [service.broker_view(view, workers[0], workers) for workers in brokers]
    return show(request, BrokerList(items=items, next_page_token=token), view=view)


@router.get(
    "/clusters/{cluster}/brokers/{broker_id:int}",
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
    """Show a broker: its endpoint, its state and what it holds. Answers 404 if none has this id."""
    view = services.engine.cluster(cluster)
    broker = service.find_broker(view, cluster, broker_id)
    version = service.version_of(view, broker.broker_id)
    return show(request, service.broker_view(view, broker), view=view, version=version)


@router.patch(
    "/clusters/{cluster}/brokers/{broker_id:int}",
    operation_id="changeBroker",
    summary="Cordon a broker, say where it stands, label it",
    response_model=BrokerView,
    responses=done(
        "Done; of a dry run, the broker as it would be",
        *_MAINTENANCE_PROBLEMS,
        headers=ETAG_HEADERS | REPLAYED_HEADERS,
    ),
)
async def change_broker(body: ChangeBroker, change: maintenance.Changing) -> Response:
    """Change a broker: a cordoned one keeps its replicas and gets no new ones, and a rack set here takes
    precedence over the one that the broker reports. Both outlast restarts, and nothing is moved."""
    asked = body.model_dump(mode="json")
    work = partial(maintenance.change_broker, body=body)
    return await change.carry_out("change_broker", work, asked, body.reason)


@router.post(
    "/clusters/{cluster}/brokers/{broker_id:int}:drain",
    operation_id="drainBroker",
    summary="Move everything off a broker",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        PlanView, "Dry run: the plan", "plan_infeasible", "broker_operation_running", *_MAINTENANCE_PROBLEMS
    ),
)
async def drain_broker(body: DrainBroker, change: maintenance.Changing) -> Response:
    """Move all replicas of a broker to others, evenly, before it is taken offline for good; no partition
    loses a replica before its new ones are in sync. The operation lasts until the broker holds nothing, and
    `blocked` lists what can't be moved yet."""
    asked = body.model_dump(mode="json")
    work = partial(maintenance.drain_broker, body=body)
    return await change.carry_out("drain_broker", work, asked, body.reason, is_operation=True)


@router.post(
    "/clusters/{cluster}/brokers/{broker_id:int}:demote",
    operation_id="demoteBroker",
    summary="Move the leaderships off a broker",
    status_code=202,
    response_model=OperationView,
    responses=_MAINTENANCE_ANSWERS,
)
async def demote_broker(body: MaintainBroker, change: maintenance.Changing) -> Response:
    """Give a broker's leaderships to other in-sync replicas before maintenance; its replicas stay in sync. It
    leads only what no other replica may lead until `:return` ends the demotion, also after a restart."""
    asked = body.model_dump(mode="json")
    work = maintenance.demote_broker
    return await change.carry_out("demote_broker", work, asked, body.reason, is_operation=True)


@router.post(
    "/clusters/{cluster}/brokers/{broker_id:int}:return",
    operation_id="returnBroker",
    summary="Take a broker back after maintenance",
    status_code=202,
    response_model=OperationView,
    responses=_MAINTENANCE_ANSWERS,
)
async def return_broker(body: MaintainBroker, change: maintenance.Changing) -> Response:
    """End the broker's cordon, drain or demotion. It may get replicas and lead again."""
    asked = body.model_dump(mode="json")
    work = maintenance.return_broker
    return await change.carry_out("return_broker", work, asked, body.reason, is_operation=True)


@router.delete(
    "/clusters/{cluster}/brokers/{broker_id:int}",
    operation_id="removeBroker",
    summary="Forget a broker that is down and holds nothing",
    response_model=BrokerView,
    responses=done(
        "Done: the broker as it was; of a dry run, it would be",
        "cluster_not_found",
        "broker_not_found",
        "broker_in_use",
        *CONDITION_PROBLEMS,
    ),
)
async def remove_broker(
    change: maintenance.Changing,
    reason: ReasonQuery = None,
) -> Response:
    """Remove a broker that is stopped and whose replicas were moved away, or one of its workers above 0, by
    its own id. If it comes back with its old disks, it sets their logs aside; a broker waits to be added."""
    asked = {"broker_id": change.broker_id}
    return await change.carry_out("remove_broker", maintenance.remove_broker, asked, reason)
