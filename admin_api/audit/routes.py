"""/audit"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from admin_api.audit.models import (
    AuditList,
    AuditView,
    VerificationView,
    audit_view,
    for_viewer,
    verification_view,
)
from admin_api.http.answers import show
from admin_api.http.models import (
    INT64_MAX,
    BrokerId,
    ClusterName,
    PartitionNumber,
    SinceTime,
    TopicName,
    UntilTime,
    milliseconds,
)
from admin_api.http.paging import Paged, decode_token
from admin_api.http.problems import FieldProblem, ProblemError, problems
from admin_api.http.rights import SEE_ACCESS
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Asking, Caller, Serving
from controller.face.cluster import Entity
from controller.face.history import AuditFilter, AuditRow, get_row, list_rows, verify

router = APIRouter(route_class=StrictRoute, tags=["Audit"])


@router.get(
    "/audit",
    operation_id="listAudit",
    summary="List changes and requests, newest first",
    response_model=AuditList,
    responses=problems("audit_unavailable"),
)
async def list_them(
    *,
    request: Request,
    services: Serving,
    caller: Asking,
    cluster: ClusterName | None = None,
    kind: Annotated[Literal["change", "request"] | None, Query(description="only rows of this kind")] = None,
    entity: Entity | None = None,
    topic: TopicName | None = None,
    partition: PartitionNumber | None = None,
    broker: Annotated[BrokerId | None, Query(description="changes of this broker, or of its role")] = None,
    actor: Annotated[str | None, Query(max_length=255)] = None,
    cause: Annotated[str | None, Query(pattern=r"^[a-z0-9_]{1,64}$", examples=["broker_died"])] = None,
    operation: Annotated[str | None, Query(max_length=64, description="an operation's id")] = None,
    request_id: Annotated[str | None, Query(max_length=128)] = None,
    since: SinceTime = None,
    until: UntilTime = None,
    paging: Paged,
) -> Response:
    """List audit rows. A `request` row is written before an operator's change is tried, a `change` row after
    every change that was made, by an operator or by the controller."""
    wanted = AuditFilter(
        kind=kind,
        cluster=cluster,
        entity=entity,
        topic=topic,
        partition=partition,
        broker=broker,
        actor=actor,
        cause=cause,
        operation_id=operation,
        request_id=request_id,
        since_ms=milliseconds(since),
        until_ms=milliseconds(until),
        below_id=None if paging.token is None else decode_token(paging.token, int)[0],
    )
    rows = await services.database.read(list_rows, wanted=wanted, limit=paging.rows)
    page, token = paging.cut(rows, lambda row: [row.id])
    items = [_shown(row, caller) for row in page]
    return show(request, AuditList(items=items, next_page_token=token))


def _shown(row: AuditRow, caller: Caller) -> AuditView:
    shown = audit_view(row)
    return shown if caller.has(SEE_ACCESS) else for_viewer(shown)


@router.get(
    "/audit/verification",
    operation_id="verifyAudit",
    summary="Verify that the history is as it was written",
    response_model=VerificationView,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def verify_it(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterName,
    from_seq: Annotated[
        int | None, Query(ge=1, le=INT64_MAX, description="first row; by default the oldest", examples=[1])
    ] = None,
    to_seq: Annotated[
        int | None, Query(ge=1, le=INT64_MAX, description="last row; by default the newest", examples=[5_000])
    ] = None,
) -> Response:
    """Walk the rows of the audit in order and stop at the first that does not fit the hash chain. Where
    retention has removed the oldest rows, the check begins after them and reports what was removed."""
    if from_seq is not None and to_seq is not None and to_seq < from_seq:
        problem = FieldProblem(parameter="to_seq", message=f"must be at least from_seq, {from_seq}")
        raise ProblemError("invalid_request", "to_seq lies before from_seq", errors=(problem,))
    found = await verify(services.database, cluster, from_seq=from_seq, to_seq=to_seq)
    if found is None:
        raise ProblemError("cluster_not_found", f"the audit has nothing about a cluster {cluster!r}")
    return show(request, verification_view(cluster, found))


@router.get(
    "/audit/{audit_id}",
    operation_id="getAuditRow",
    summary="Look at one row",
    response_model=AuditView,
    responses=problems("audit_row_not_found", "audit_unavailable"),
)
async def get_it(
    request: Request,
    services: Serving,
    caller: Asking,
    audit_id: Annotated[int, Path(ge=0, le=INT64_MAX, examples=[1])],
) -> Response:
    """Show one row of the audit. Answers 404 if no row has this id, or no longer."""
    row = await services.database.read(get_row, audit_id=audit_id)
    if row is None:
        raise ProblemError("audit_row_not_found", f"there is no audit row {audit_id}")
    return show(request, _shown(row, caller))
