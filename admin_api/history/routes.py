"""/audit"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from admin_api.answers import show
from admin_api.history.models import (
    AuditList,
    AuditView,
    SinceTime,
    UntilTime,
    audit_view,
    milliseconds,
)
from admin_api.names import INT64_MAX, BrokerId, ClusterName, PartitionNumber, TopicName
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, decode_token, encode_token
from admin_api.problem import ProblemError, problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from controller.audit.change import Entity
from controller.audit.queries import AuditFilter, get_row, list_rows

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
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """Written before an operator's change is tried, and after every change that was made, by whomever."""
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
        below_id=None if page_token is None else decode_token(page_token, int)[0],
    )
    rows = await services.audit.read(partial(list_rows, wanted=wanted, limit=limit + 1))
    page = rows[:limit]
    token = encode_token([page[-1].id]) if len(rows) > limit else None
    return show(request, AuditList(items=[audit_view(row) for row in page], next_page_token=token))


@router.get(
    "/audit/{audit_id}",
    operation_id="getAuditRow",
    summary="Look at one row",
    response_model=AuditView,
    responses=problems("audit_row_not_found", "audit_unavailable"),
)
async def get_it(
    request: Request, services: Serving, audit_id: Annotated[int, Path(ge=0, le=INT64_MAX, examples=[1])]
) -> Response:
    row = await services.audit.read(partial(get_row, audit_id=audit_id))
    if row is None:
        raise ProblemError("audit_row_not_found", f"there is no audit row {audit_id}")
    return show(request, audit_view(row))
