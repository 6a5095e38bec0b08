"""/operations"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from admin_api.answers import ETAG_HEADERS, show
from admin_api.history.models import SinceTime, milliseconds
from admin_api.names import ClusterName
from admin_api.operations.model import OperationState
from admin_api.operations.views import OperationList, OperationView, operation_view
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, decode_position, encode_token
from admin_api.problem import ProblemError, problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from controller.audit.operation_rows import OperationFilter, get_operation, list_operations

router = APIRouter(route_class=StrictRoute, tags=["Operations"])

OperationPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["op_Zk1lV0pCTEq4nY6mXw2v3A"])]
Word = Annotated[str, Query(pattern=r"^[a-z0-9_]{1,64}$")]


@router.get(
    "/operations",
    operation_id="listOperations",
    summary="List operations, newest first",
    response_model=OperationList,
    responses=problems("audit_unavailable"),
)
async def list_them(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterName | None = None,
    state: OperationState | None = None,
    kind: Word | None = None,
    actor: Annotated[str | None, Query(max_length=255)] = None,
    since: SinceTime = None,
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """Finished ones stay: they are the history of what was done to the cluster."""
    below = None if page_token is None else decode_position(page_token, "operations", int, str)
    wanted = OperationFilter(
        cluster=cluster,
        state=None if state is None else state.value,
        kind=kind,
        actor=actor,
        since_ms=milliseconds(since),
        below=None if below is None else (below[0], below[1]),
    )
    rows = await services.audit.read(partial(list_operations, wanted=wanted, limit=limit + 1))
    page = rows[:limit]
    token = encode_token(["operations", page[-1].created_at_ms, page[-1].id]) if len(rows) > limit else None
    return show(request, OperationList(items=[operation_view(row) for row in page], next_page_token=token))


@router.get(
    "/operations/{operation_id}",
    operation_id="getOperation",
    summary="Look at an operation",
    response_model=OperationView,
    responses={200: {"headers": ETAG_HEADERS}, **problems("operation_not_found", "audit_unavailable")},
)
async def get_it(request: Request, services: Serving, operation_id: OperationPath) -> Response:
    row = await services.audit.read(partial(get_operation, operation_id=operation_id))
    if row is None:
        raise ProblemError("operation_not_found", f"there is no operation {operation_id!r}")
    return show(request, operation_view(row), version=str(row.revision))
