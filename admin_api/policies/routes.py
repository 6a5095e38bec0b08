"""/clusters/{cluster}/policies"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from admin_api.http.answers import ETAG_HEADERS, LOCATION_HEADERS, REPLAYED_HEADERS, show
from admin_api.http.conditions import IfMatch
from admin_api.http.models import ClusterPath, Reason
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, WRITE_PROBLEMS, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from admin_api.policies import service
from admin_api.policies.models import PolicyList, PolicyName, PolicyTried, PolicyView, PutPolicy, policy_view
from controller.face.policies import list_policies

router = APIRouter(route_class=StrictRoute, tags=["Plans"])

PolicyPath = Annotated[PolicyName, Path(description="the policy's name", examples=["prod_rf3"])]


@router.get(
    "/clusters/{cluster}/policies",
    operation_id="listPolicies",
    summary="List the cluster's policies",
    response_model=PolicyList,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def list_them(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
) -> Response:
    """List the cluster's policies. A plan is carried out only if each of them returns no rows."""
    services.engine.cluster(cluster)
    rows = await services.database.read(list_policies, cluster=cluster)
    page, token = paging.page_of(rows, lambda row: (row.name,), name="policies", kinds=(str,))
    items = [policy_view(row, await service.shape_of(services, row)) for row in page]
    return show(request, PolicyList(items=items, next_page_token=token))


@router.get(
    "/clusters/{cluster}/policies/{name}",
    operation_id="getPolicy",
    summary="Look at a policy",
    response_model=PolicyView,
    responses={
        200: {"headers": ETAG_HEADERS},
        **problems("cluster_not_found", "policy_not_found", "audit_unavailable"),
    },
)
async def get_it(request: Request, services: Serving, cluster: ClusterPath, name: PolicyPath) -> Response:
    """Show a policy's SQL and the tables that it reads. Answers 404 if no policy has this name."""
    services.engine.cluster(cluster)
    row = await service.find_policy(services, cluster, name)
    return show(request, policy_view(row, await service.shape_of(services, row)), version=str(row.revision))


@router.put(
    "/clusters/{cluster}/policies/{name}",
    operation_id="putPolicy",
    summary="Write a policy",
    response_model=PolicyView | PolicyTried,
    responses={
        200: {
            "description": "It replaces another; or, of a dry run, what it says about the cluster now",
            "headers": ETAG_HEADERS | REPLAYED_HEADERS,
        },
        201: {
            "model": PolicyView,
            "description": "It is new",
            "headers": {"Location": LOCATION_HEADERS["Location"]} | ETAG_HEADERS | REPLAYED_HEADERS,
        },
        **problems(
            "cluster_not_found",
            "not_read_only",
            "invalid_policy",
            "too_many_policies",
            "audit_unavailable",
            "overloaded",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def put_it(
    *,
    body: PutPolicy,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    name: PolicyPath,
) -> Response:
    """Create or replace a policy: one SELECT over the tables listed at `sql`, bounded in time, which returns
    a plan's faults. Requires the role admin."""
    asked = Asked(
        cluster=cluster,
        action="put_policy",
        body={"policy": name} | body.model_dump(mode="json"),
        reason=body.reason,
    )
    return await write.carry_out(
        asked, partial(service.write_policy, services, cluster, name, body=body, condition=condition)
    )


@router.delete(
    "/clusters/{cluster}/policies/{name}",
    operation_id="deletePolicy",
    summary="Delete a policy",
    status_code=204,
    response_class=Response,
    responses={
        200: {"model": PolicyView, "description": "Dry run: the policy that would go"},
        **problems(
            "cluster_not_found",
            "policy_not_found",
            "audit_unavailable",
            "overloaded",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def delete_it(
    *,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    name: PolicyPath,
    reason: Annotated[Reason | None, Query(description="kept in the audit")] = None,
) -> Response:
    """Delete a policy. Requires the role admin."""
    asked = Asked(
        cluster=cluster,
        action="delete_policy",
        body={"policy": name},
        reason=reason,
    )
    return await write.carry_out(
        asked, partial(service.remove_policy, services, cluster, name, condition=condition)
    )
