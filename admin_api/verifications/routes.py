"""/clusters/{cluster}/verifications"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from admin_api.answers import show
from admin_api.clusters.routes import WRITE_PROBLEMS, ClusterPath
from admin_api.operations.views import LOCATION_HEADERS
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, cut_page, decode_position
from admin_api.problem import problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from admin_api.verifications import service
from admin_api.verifications.models import (
    FindingList,
    RecordVerification,
    ReplicaVerificationView,
    VerificationId,
    VerificationList,
    finding_view,
    verification_summary,
    verification_view,
)
from admin_api.writes import REPLAYED_HEADERS, Asked, Write
from controller.audit.change import Entity
from controller.database.verification_rows import list_findings, list_verifications

router = APIRouter(route_class=StrictRoute, tags=["Verifications"])

VerificationPath = Annotated[
    VerificationId, Path(description="the verification's id", examples=["ver_Zk1lV0pCTEq4nY6mXw2v3A"])
]


@router.get(
    "/clusters/{cluster}/verifications",
    operation_id="listVerifications",
    summary="List the cluster's verifications, newest first",
    response_model=VerificationList,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def list_them(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """List verifications: whether replicas were identical, complete and in order, each time that they were
    checked."""
    services.engine.image(cluster)
    below = None if page_token is None else decode_position(page_token, "verifications", int, str)
    rows = await services.database.read(
        partial(
            list_verifications,
            cluster=cluster,
            below=None if below is None else (below[0], below[1]),
            limit=limit + 1,
        )
    )
    page, token = cut_page(rows, limit, lambda row: ["verifications", row.recorded_at_ms, row.id])
    items = [verification_summary(row) for row in page]
    return show(request, VerificationList(items=items, next_page_token=token))


@router.post(
    "/clusters/{cluster}/verifications",
    operation_id="recordVerification",
    summary="Keep what a verification found",
    status_code=201,
    response_model=ReplicaVerificationView,
    responses={
        200: {"model": ReplicaVerificationView, "description": "Dry run: what would be kept"},
        201: {"headers": {"Location": LOCATION_HEADERS["Location"]} | REPLAYED_HEADERS},
        **problems("cluster_not_found", "audit_unavailable", *WRITE_PROBLEMS),
    },
)
async def record_it(
    *, body: RecordVerification, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Record a verification, as `pipeline verify --record` does. The newest four hundred of a cluster are
    kept."""
    services.engine.image(cluster)
    asked = Asked(
        cluster=cluster,
        action="record_verification",
        entity=Entity.CLUSTER,
        entity_id=cluster,
        # The lists are stored in their own tables.
        body=body.model_dump(mode="json", exclude={"findings", "partitions"}),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(service.record_verification, services, cluster, body=body))


@router.get(
    "/clusters/{cluster}/verifications/{verification_id}",
    operation_id="getVerification",
    summary="Look at a verification",
    response_model=ReplicaVerificationView,
    responses=problems("cluster_not_found", "verification_not_found", "audit_unavailable"),
)
async def get_it(
    request: Request, services: Serving, cluster: ClusterPath, verification_id: VerificationPath
) -> Response:
    services.engine.image(cluster)
    return show(
        request, verification_view(await service.find_verification(services, cluster, verification_id))
    )


@router.get(
    "/clusters/{cluster}/verifications/{verification_id}/findings",
    operation_id="listFindings",
    summary="List what a verification found to be wrong",
    response_model=FindingList,
    responses=problems("cluster_not_found", "verification_not_found", "audit_unavailable"),
)
async def list_what_is_wrong(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    verification_id: VerificationPath,
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    services.engine.image(cluster)
    await service.find_verification(services, cluster, verification_id)
    after = -1 if page_token is None else decode_position(page_token, "findings", int)[0]
    rows = await services.database.read(
        partial(list_findings, verification_id=verification_id, after=after, limit=limit + 1)
    )
    page, token = cut_page(rows, limit, lambda row: ["findings", row.position])
    return show(request, FindingList(items=[finding_view(row) for row in page], next_page_token=token))
