"""/operations"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import ConfigDict, Field, model_validator

from admin_api.answers import ETAG_HEADERS, show
from admin_api.clusters.routes import CONDITION_PROBLEMS, WRITE_PROBLEMS
from admin_api.conditions import IfMatch
from admin_api.history.models import SinceTime, milliseconds
from admin_api.names import ClusterName, Reason
from admin_api.operations.cancelling import cancel_operation, find_operation
from admin_api.operations.controls import pause_operation, resume_operation
from admin_api.operations.moves import MoveList, Place, moves_of
from admin_api.operations.throttling import throttle_operation
from admin_api.operations.views import (
    LOCATION_HEADERS,
    ConcurrentMoves,
    OperationList,
    OperationView,
    Throttle,
    operation_view,
)
from admin_api.pages import LIMIT_DEFAULT, Limit, PageToken, cut_page, decode_position
from admin_api.problem import problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from admin_api.views import RequestBody
from admin_api.writes import REPLAYED_HEADERS, Asked, Write
from controller.audit.change import Entity
from controller.database.operation_rows import OperationFilter, list_operations
from controller.database.rows import OperationRow
from controller.operations.model import CancelMode, Fate, OperationState

router = APIRouter(route_class=StrictRoute, tags=["Operations"])

OperationPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["op_Zk1lV0pCTEq4nY6mXw2v3A"])]
Word = Annotated[str, Query(pattern=r"^[a-z0-9_]{1,64}$")]


class CancelOperation(RequestBody):
    """The reason for cancelling an operation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "clients time out"}]})

    reason: Reason | None = None


class SteerOperation(RequestBody):
    """The reason for pausing or resuming an operation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the month is being closed"}]})

    reason: Reason | None = None


class ChangeOperation(RequestBody):
    """The rate limits of an operation."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"throttle_bytes_per_s": 50_000_000, "reason": "clients time out"}]}
    )

    throttle_bytes_per_s: Throttle | None = Field(
        default=None,
        description="how much each broker may copy for it; null: unthrottled; left out: as it is",
    )
    max_concurrent_moves: ConcurrentMoves | None = Field(
        default=None, description="of one that carries out a plan: partitions on their way at once"
    )
    reason: Reason | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set & {"throttle_bytes_per_s", "max_concurrent_moves"}:
            raise ValueError("throttle_bytes_per_s or max_concurrent_moves is needed")
        return self


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
    """List operations. Finished operations stay: they are the history of what was done to the cluster."""
    below = None if page_token is None else decode_position(page_token, "operations", int, str)
    wanted = OperationFilter(
        cluster=cluster,
        state=None if state is None else state.value,
        kind=kind,
        actor=actor,
        since_ms=milliseconds(since),
        below=None if below is None else (below[0], below[1]),
    )
    rows = await services.database.read(partial(list_operations, wanted=wanted, limit=limit + 1))
    page, token = cut_page(rows, limit, lambda row: ["operations", row.created_at_ms, row.id])
    live = services.operations.live(page)
    items = [operation_view(row, live.get(row.cluster), services.operations.moving(row.id)) for row in page]
    return show(request, OperationList(items=items, next_page_token=token))


@router.get(
    "/operations/{operation_id:word}",
    operation_id="getOperation",
    summary="Look at an operation",
    response_model=OperationView,
    responses={200: {"headers": ETAG_HEADERS}, **problems("operation_not_found", "audit_unavailable")},
)
async def get_it(request: Request, services: Serving, operation_id: OperationPath) -> Response:
    row = await find_operation(services, operation_id)
    live = services.operations.live([row])
    return show(
        request,
        operation_view(row, live.get(row.cluster), services.operations.moving(row.id)),
        version=str(row.revision),
    )


@router.post(
    "/operations/{operation_id:word}:cancel",
    operation_id="cancelOperation",
    summary="Cancel an operation and undo what it has begun",
    status_code=202,
    response_model=OperationView,
    responses={
        202: {
            "description": "Accepted: it is `cancelling`, until what it moved is back",
            "headers": LOCATION_HEADERS | REPLAYED_HEADERS,
        },
        200: {"model": OperationView, "description": "Dry run: the operation as it would be"},
        **problems(
            "operation_not_found",
            "operation_finished",
            "operation_not_cancellable",
            "audit_unavailable",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def cancel_it(
    *,
    body: CancelOperation,
    services: Serving,
    write: Write,
    condition: IfMatch,
    operation_id: OperationPath,
    mode: Annotated[
        CancelMode,
        Query(
            description="`rollback`: what is on its way goes back; `keep`: it arrives; nothing else begins"
        ),
    ] = CancelMode.ROLLBACK,
) -> Response:
    """Cancel an operation. Partitions whose move is not finished get their original replicas back, or arrive
    (`mode`). Those that have arrived stay, and `:undo` brings them back when the operation has ended. If too
    few of the original replicas are in sync, the operation waits for them, and `blocked` says so. A new
    active controller continues the cancellation."""
    row = await find_operation(services, operation_id)
    asked = Asked(
        cluster=row.cluster,
        action="cancel_operation",
        entity=Entity.CLUSTER,
        entity_id=row.cluster,
        body={"operation_id": operation_id, "mode": mode.value, "reason": body.reason},
        reason=body.reason,
    )
    return await write.carry_out(
        asked, partial(cancel_operation, services, operation_id, condition=condition, mode=mode)
    )


_STEERING_PROBLEMS = (
    "operation_not_found",
    "operation_finished",
    "operation_not_pausable",
    "audit_unavailable",
    *CONDITION_PROBLEMS,
    *WRITE_PROBLEMS,
)


@router.post(
    "/operations/{operation_id:word}:pause",
    operation_id="pauseOperation",
    summary="Pause an operation that carries out a plan",
    response_model=OperationView,
    responses={
        200: {"description": "Paused; of a dry run, it is not", "headers": REPLAYED_HEADERS},
        **problems(*_STEERING_PROBLEMS),
    },
)
async def pause_it(
    *,
    body: SteerOperation,
    services: Serving,
    write: Write,
    condition: IfMatch,
    operation_id: OperationPath,
) -> Response:
    """Pause an operation. It begins no further move, and moves that have begun are finished. It stays paused
    until it is resumed or cancelled, also under a new active controller."""
    row = await find_operation(services, operation_id)
    asked = _steering(row, "pause_operation", body.reason)
    return await write.carry_out(asked, partial(pause_operation, services, operation_id, condition=condition))


@router.post(
    "/operations/{operation_id:word}:resume",
    operation_id="resumeOperation",
    summary="Let a paused operation go on",
    response_model=OperationView,
    responses={
        200: {"description": "It goes on; of a dry run, it does not", "headers": REPLAYED_HEADERS},
        **problems(*_STEERING_PROBLEMS),
    },
)
async def resume_it(
    *,
    body: SteerOperation,
    services: Serving,
    write: Write,
    condition: IfMatch,
    operation_id: OperationPath,
) -> Response:
    """Resume an operation. An operation whose time has not come is `scheduled` again."""
    row = await find_operation(services, operation_id)
    asked = _steering(row, "resume_operation", body.reason)
    return await write.carry_out(
        asked, partial(resume_operation, services, operation_id, condition=condition)
    )


def _steering(row: OperationRow, action: str, reason: str | None) -> Asked:
    return Asked(
        cluster=row.cluster,
        action=action,
        entity=Entity.CLUSTER,
        entity_id=row.cluster,
        body={"operation_id": row.id, "reason": reason},
        reason=reason,
    )


@router.get(
    "/operations/{operation_id:word}/moves",
    operation_id="listMoves",
    summary="List an operation's moves, one by one",
    response_model=MoveList,
    responses=problems("operation_not_found", "audit_unavailable"),
)
async def list_moves(
    *,
    request: Request,
    services: Serving,
    operation_id: OperationPath,
    fate: Annotated[Fate | None, Query(description="only those")] = None,
    limit: Limit = LIMIT_DEFAULT,
    page_token: PageToken = None,
) -> Response:
    """List the moves in the plan's order, with the outcome of each; for unfinished ones, their progress and
    what blocks them. If the operation has planned again, the list has the moves of all its plans, one plan
    after the other. It is empty for an operation that moves nothing."""
    row = await find_operation(services, operation_id)
    after = None if page_token is None else Place(*decode_position(page_token, "moves", str, int))
    found = await moves_of(services, row, after=after, fate=fate, limit=limit + 1)
    page, token = cut_page(found, limit, lambda move: ["moves", move.plan_id or "", move.position])
    return show(request, MoveList(items=page, next_page_token=token))


@router.patch(
    "/operations/{operation_id:word}",
    operation_id="changeOperation",
    summary="Throttle an operation, or lift that",
    response_model=OperationView,
    responses={
        200: {"description": "Done; of a dry run, nothing is", "headers": REPLAYED_HEADERS},
        **problems(
            "operation_not_found",
            "operation_finished",
            "operation_moves_nothing",
            "partition_changed",
            "audit_unavailable",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def change_it(
    *,
    body: ChangeOperation,
    services: Serving,
    write: Write,
    condition: IfMatch,
    operation_id: OperationPath,
) -> Response:
    """Change an operation's limits. The rate applies to each broker that copies, over all partitions of the
    operation, from now on until they have arrived or are back. It limits replicas that are being added, never
    those in sync."""
    row = await find_operation(services, operation_id)
    asked = Asked(
        cluster=row.cluster,
        action="throttle_operation",
        entity=Entity.CLUSTER,
        entity_id=row.cluster,
        body={"operation_id": operation_id} | body.model_dump(mode="json"),
        reason=body.reason,
    )
    return await write.carry_out(
        asked,
        partial(
            throttle_operation,
            services,
            operation_id,
            throttle_bytes_per_s=body.throttle_bytes_per_s,
            max_concurrent_moves=body.max_concurrent_moves,
            changed=body.model_fields_set,
            condition=condition,
        ),
    )
