"""/clusters/{cluster}/acls"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.acls import service
from admin_api.acls.models import (
    AddAcls,
    AddedAcls,
    AskedOperation,
    BindingList,
    Explanation,
    HostName,
    OperationName,
    PatternFilter,
    PermissionName,
    PrincipalName,
    RemoveAcls,
    RemovedAcls,
    ResourceName,
    ResourceTypeName,
    filter_of,
)
from admin_api.acls.over_rest import REQUEST_CHARS_MAX, find_request, refuse_together
from admin_api.http.answers import AGE_HEADERS, done, show
from admin_api.http.models import ClusterPath
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from controller.face.cluster import Entity

router = APIRouter(route_class=StrictRoute, tags=["ACLs"])


@router.get(
    "/clusters/{cluster}/acls",
    operation_id="listAcls",
    summary="List ACLs",
    response_model=BindingList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found", "invalid_acl")},
)
async def list_acls(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
    resource_type: Annotated[ResourceTypeName | None, Query(description="only of this type")] = None,
    resource_name: Annotated[ResourceName | None, Query(description="only of this name")] = None,
    pattern_type: Annotated[
        PatternFilter,
        Query(
            description="`match`: what stands for the resource of this name, `*` and prefixes included; "
            "`literal`, `prefixed` and `any`: patterns of exactly this name"
        ),
    ] = "any",
    principal: Annotated[PrincipalName | None, Query(description="only of this principal")] = None,
    host: Annotated[HostName | None, Query(description="only of this host")] = None,
    operation: Annotated[OperationName | None, Query(description="only of this operation")] = None,
    permission: Annotated[PermissionName | None, Query(description="only these")] = None,
) -> Response:
    """List the bindings that a filter matches, by the beginnings of their resources' names. Requires the role
    operator."""
    view = services.engine.cluster(cluster)
    wanted = filter_of(
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )
    items, token = service.listed(view.image, service.checked_filter(wanted), paging)
    return show(request, BindingList(items=items, next_page_token=token), view=view)


@router.post(
    "/clusters/{cluster}/acls",
    operation_id="addAcls",
    summary="Allow or deny principals something",
    response_model=AddedAcls,
    responses=done(
        "Done; of a dry run, as it would be",
        "cluster_not_found",
        "invalid_acl",
        "too_many_acls",
    ),
)
async def add_acls(body: AddAcls, services: Serving, write: Write, cluster: ClusterPath) -> Response:
    """Add bindings, all or none; while the cluster has no authorizer, they are stored and decide nothing.
    Requires the role admin."""
    asked = Asked(
        cluster=cluster,
        action="add_acls",
        entity=Entity.ACLS,
        body=body.model_dump(mode="json"),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(service.add_acls, services, cluster, body))


@router.post(
    "/clusters/{cluster}/acls:delete",
    operation_id="removeAcls",
    summary="Remove the ACLs that a filter matches",
    response_model=RemovedAcls,
    responses=done("Done; of a dry run, what would go", "cluster_not_found", "invalid_acl"),
)
async def remove_acls(body: RemoveAcls, services: Serving, write: Write, cluster: ClusterPath) -> Response:
    """Remove each binding that has what the body names; a body that names all fields removes one binding.
    Requires the role admin."""
    asked = Asked(
        cluster=cluster,
        action="remove_acls",
        entity=Entity.ACLS,
        body=body.model_dump(mode="json", exclude_none=True),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(service.remove_acls, services, cluster, body))


@router.get(
    "/clusters/{cluster}/acls:explain",
    operation_id="explainAcls",
    summary="Say why a client may, or may not, do something",
    response_model=Explanation,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found", "invalid_acl")},
)
async def explain_acls(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    principal: Annotated[PrincipalName, Query()],
    operation: Annotated[
        AskedOperation | None, Query(description="what the client wants to do, over Kafka's protocol")
    ] = None,
    resource_type: Annotated[ResourceTypeName | None, Query(description="of the resource")] = None,
    resource_name: Annotated[
        ResourceName | None, Query(description="of the resource; of a `request`, the topic that it creates")
    ] = None,
    asked_request: Annotated[
        str | None,
        Query(
            alias="request",
            min_length=1,
            max_length=REQUEST_CHARS_MAX,
            description="a request over REST, by its method and path, instead of operation and resource_type",
            examples=["POST /clusters/prod/topics"],
        ),
    ] = None,
    host: Annotated[
        HostName, Query(description="the client's IP address; `*`: one that no binding names")
    ] = "*",
) -> Response:
    """Show the decision of the ACLs, the binding that decided, whether an authorizer asks them at all, what
    the principal's role gives, and what would have to change. Requires the role operator."""
    view = services.engine.cluster(cluster)
    if asked_request is None:
        named = {"operation": operation, "resource_type": resource_type, "resource_name": resource_name}
        asked, found = service.asked_binding(principal, host, named), None
    else:
        refuse_together(operation=operation, resource_type=resource_type)
        found = find_request(request.app.routes, asked_request, cluster, resource_name)
        asked = service.binding_of(principal, host, found.right)
    told = service.explanation(view.image, asked, tokens=services.tokens, request=found)
    return show(request, told, view=view)
