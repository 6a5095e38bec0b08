"""/clusters/{cluster}/coordinators"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from admin_api.coordinators import service
from admin_api.coordinators.models import (
    AdmitCoordinatorsBody,
    AdmittedCoordinators,
    ChangeCoordinator,
    CoordinatorList,
    CoordinatorView,
)
from admin_api.http.answers import AGE_HEADERS, ETAG_HEADERS, REPLAYED_HEADERS, done, show
from admin_api.http.models import ClusterPath, ReasonQuery
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from controller.face.cluster import Entity

router = APIRouter(route_class=StrictRoute, tags=["Coordinators"])


@router.post(
    "/clusters/{cluster}/coordinators",
    operation_id="admitCoordinators",
    summary="Let coordinators serve client groups",
    response_model=AdmittedCoordinators,
    responses=done(
        "Done; of a dry run, as it would be", "cluster_not_found", "unknown_coordinator", "broker_without_tls"
    ),
)
async def admit_coordinators(
    body: AdmitCoordinatorsBody, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Admit coordinators that have registered and wait: each takes over its share of the state of client
    groups and transactions when it has read it. When the first is admitted, the topic `__consumer_offsets` is
    created; `__transaction_state` comes with the first client that has transactions."""
    asked = Asked(
        cluster=cluster,
        action="admit_coordinators",
        entity=Entity.COORDINATOR,
        entity_id=",".join(map(str, body.coordinator_ids))[:300],
        body=body.model_dump(mode="json"),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(service.admit_coordinators, services, cluster, body))


@router.get(
    "/clusters/{cluster}/coordinators",
    operation_id="listCoordinators",
    summary="List coordinators",
    response_model=CoordinatorList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def list_coordinators(
    request: Request, services: Serving, cluster: ClusterPath, paging: Paged
) -> Response:
    """List the cluster's coordinators, including those that wait to be admitted."""
    view = services.engine.cluster(cluster)
    coordinators, token = paging.page_of(
        view.image.coordinators.values(),
        lambda coordinator: (coordinator.coordinator_id,),
        name="coordinators",
        kinds=(int,),
    )
    items = [service.coordinator_view(view, coordinator) for coordinator in coordinators]
    return show(request, CoordinatorList(items=items, next_page_token=token), view=view)


@router.get(
    "/clusters/{cluster}/coordinators/{coordinator_id:int}",
    operation_id="getCoordinator",
    summary="Look at a coordinator",
    response_model=CoordinatorView,
    responses={
        200: {"headers": AGE_HEADERS | ETAG_HEADERS},
        **problems("cluster_not_found", "coordinator_not_found"),
    },
)
async def get_coordinator(
    request: Request, services: Serving, cluster: ClusterPath, coordinator_id: service.CoordinatorPath
) -> Response:
    """Show a coordinator: its endpoint, its state and what it serves. Answers 404 if none has this id."""
    view = services.engine.cluster(cluster)
    coordinator = service.find_coordinator(view, cluster, coordinator_id)
    version = service.version_of(view, coordinator_id)
    return show(request, service.coordinator_view(view, coordinator), view=view, version=version)


@router.patch(
    "/clusters/{cluster}/coordinators/{coordinator_id:int}",
    operation_id="changeCoordinator",
    summary="Drain or demote a coordinator, or take it back",
    response_model=CoordinatorView,
    responses=done(
        "Done; of a dry run, the coordinator as it would be",
        "cluster_not_found",
        "coordinator_not_found",
        *CONDITION_PROBLEMS,
        headers=ETAG_HEADERS | REPLAYED_HEADERS,
    ),
)
async def change_coordinator(body: ChangeCoordinator, change: service.Changing) -> Response:
    """Change a coordinator, also across its restarts. A draining or demoted one gives each shard away when
    another has read it, so that no client waits: the first can be stopped when it is `drained`, the second
    goes on following others' shards."""
    asked = body.model_dump(mode="json")
    work = partial(service.change_coordinator, body=body)
    return await change.carry_out("change_coordinator", work, asked, body.reason)


@router.delete(
    "/clusters/{cluster}/coordinators/{coordinator_id:int}",
    operation_id="removeCoordinator",
    summary="Forget a coordinator that is down",
    response_model=CoordinatorView,
    responses=done(
        "Done: the coordinator as it was; of a dry run, it would be",
        "cluster_not_found",
        "coordinator_not_found",
        "coordinator_in_use",
        *CONDITION_PROBLEMS,
    ),
)
async def remove_coordinator(change: service.Changing, reason: ReasonQuery = None) -> Response:
    """Remove a coordinator that was stopped: its id is free afterwards. If it comes back, it waits to be
    admitted."""
    asked = {"coordinator_id": change.coordinator_id}
    return await change.carry_out("remove_coordinator", service.remove_coordinator, asked, reason)
