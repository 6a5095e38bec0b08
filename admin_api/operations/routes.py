"""/operations"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.http.answers import ETAG_HEADERS, accepted, done, show
from admin_api.http.models import ClusterName, OperationPath, SinceTime, milliseconds
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.operations.models import (
    CancelOperation,
    ChangeOperation,
    OperationList,
    OperationView,
    SteerOperation,
)
from admin_api.operations.moves import MoveList, MovePosition, moves_of
from admin_api.operations.service import (
    Changing,
    cancel_operation,
    current_view,
    current_views,
    find_operation,
    steer_operation,
    throttle_operation,
)
from controller.face.database import OperationFilter, list_operations
from controller.face.operations import CancelMode, Fate, OperationState

router = APIRouter(route_class=StrictRoute, tags=["Operations"])
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
    paging: Paged,
) -> Response:
    """List operations. Finished operations stay: they are the history of what was done to the cluster."""
    wanted = OperationFilter(
        cluster=cluster,
        state=None if state is None else state.value,
        kind=kind,
        actor=actor,
        since_ms=milliseconds(since),
        below=paging.after("operations", int, str),
    )
    rows = await services.database.read(list_operations, wanted=wanted, limit=paging.rows)
    page, token = paging.cut(rows, lambda row: ["operations", row.created_at_ms, row.id])
    return show(request, OperationList(items=current_views(services, page), next_page_token=token))


@router.get(
    "/operations/{operation_id:word}",
    operation_id="getOperation",
    summary="Look at an operation",
    response_model=OperationView,
    responses={200: {"headers": ETAG_HEADERS}, **problems("operation_not_found", "audit_unavailable")},
)
async def get_it(request: Request, services: Serving, operation_id: OperationPath) -> Response:
    """Show an operation with its progress and what it waits for. Answers 404 if none has this id."""
    row = await find_operation(services, operation_id)
    return show(request, current_view(services, row), version=str(row.revision))


@router.post(
    "/operations/{operation_id:word}:cancel",
    operation_id="cancelOperation",
    summary="Cancel an operation: finished moves stay, those under way go back",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        OperationView,
        "Dry run: the operation as it would be",
        "operation_not_found",
        "operation_finished",
        "operation_not_cancellable",
        "stored_by_later_release",
        "audit_unavailable",
        *CONDITION_PROBLEMS,
        description="Accepted: it is `cancelling`, until what it moved is back",
    ),
)
async def cancel_it(
    *,
    body: CancelOperation,
    change: Changing,
    mode: Annotated[
        CancelMode,
        Query(
            description="`rollback`: what is on its way goes back; `keep`: it arrives; nothing else begins"
        ),
    ] = CancelMode.ROLLBACK,
) -> Response:
    """Stop an operation: partitions whose move is not finished get their original replicas back, or arrive
    (`mode`). Those that have arrived stay until `:undo`; `cancellation` says how many, in a dry run too, and
    `blocked` where too few original replicas are in sync."""
    asked = {"mode": mode.value, "reason": body.reason}
    work = partial(cancel_operation, mode=mode)
    return await change.carry_out("cancel_operation", work, asked, body.reason)


_STEERING_PROBLEMS = (
    "operation_not_found",
    "operation_finished",
    "operation_not_pausable",
    "stored_by_later_release",
    "audit_unavailable",
    *CONDITION_PROBLEMS,
)


@router.post(
    "/operations/{operation_id:word}:pause",
    operation_id="pauseOperation",
    summary="Pause an operation that carries out a plan",
    response_model=OperationView,
    responses=done("Paused; of a dry run, it is not", *_STEERING_PROBLEMS),
)
async def pause_it(body: SteerOperation, change: Changing) -> Response:
    """Let an operation begin no further move; moves that have begun are finished. It stays paused until it is
    resumed or cancelled, also under a new active controller."""
    work = partial(steer_operation, to=OperationState.PAUSED)
    return await change.carry_out("pause_operation", work, {"reason": body.reason}, body.reason)


@router.post(
    "/operations/{operation_id:word}:resume",
    operation_id="resumeOperation",
    summary="Resume a paused operation",
    response_model=OperationView,
    responses=done("The operation continues; with a dry run, it does not", *_STEERING_PROBLEMS),
)
async def resume_it(body: SteerOperation, change: Changing) -> Response:
    """Resume an operation. An operation whose time has not come is `scheduled` again."""
    work = partial(steer_operation, to=OperationState.RUNNING)
    return await change.carry_out("resume_operation", work, {"reason": body.reason}, body.reason)


@router.get(
    "/operations/{operation_id:word}/moves",
    operation_id="listMoves",
    summary="List an operation's moves, one by one",
    response_model=MoveList,
    responses=problems("operation_not_found", "stored_by_later_release", "audit_unavailable"),
)
async def list_moves(
    *,
    request: Request,
    services: Serving,
    operation_id: OperationPath,
    fate: Annotated[Fate | None, Query(description="only those")] = None,
    paging: Paged,
) -> Response:
    """List the moves of all plans that the operation made, in their order, with the outcome of each, or its
    progress and what blocks it. Empty for an operation that moves nothing."""
    row = await find_operation(services, operation_id)
    position = paging.after("moves", str, int)
    after = None if position is None else MovePosition(*position)
    found = await moves_of(services, row, after=after, fate=fate, limit=paging.rows)
    page, token = paging.cut(found, lambda move: ["moves", move.plan_id or "", move.position])
    return show(request, MoveList(items=page, next_page_token=token))


@router.patch(
    "/operations/{operation_id:word}",
    operation_id="changeOperation",
    summary="Throttle an operation, or lift that",
    response_model=OperationView,
    responses=done(
        "Done; of a dry run, nothing is",
        "operation_not_found",
        "operation_finished",
        "operation_moves_nothing",
        "partition_changed",
        "stored_by_later_release",
        "audit_unavailable",
        *CONDITION_PROBLEMS,
    ),
)
async def change_it(body: ChangeOperation, change: Changing) -> Response:
    """Change an operation's limits: the rate applies to each broker that copies, over all its partitions,
    until they have arrived or are back. It limits replicas that are being added, never those in sync."""
    asked = body.model_dump(mode="json")
    work = partial(throttle_operation, body=body)
    return await change.carry_out("throttle_operation", work, asked, body.reason)
