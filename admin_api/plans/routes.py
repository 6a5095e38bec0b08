"""/clusters/{cluster}/plans"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.http.answers import ETAG_HEADERS, LOCATION_HEADERS, REPLAYED_HEADERS, accepted, show
from admin_api.http.models import ClusterPath, PlanPath, Reason
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, WRITE_PROBLEMS, ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Write
from admin_api.operations.models import OperationView
from admin_api.plans import service
from admin_api.plans.goals import recorded
from admin_api.plans.models import (
    MOVES_SHOWN,
    ExecutePlan,
    MakePlan,
    PlanList,
    PlannedMoveList,
    PlannedMoveView,
    PlanView,
    plan_row_view,
    plan_summary,
)
from admin_api.settings import ApiSettings
from controller.face.database import PlanRow
from controller.face.plans import get_moves, get_plan, list_plans


class PlanRoute(StrictRoute):
    """A route whose body may hold the measurements of a large cluster."""

    def bytes_max(self, settings: ApiSettings) -> int:
        return settings.measured_bytes_max


router = APIRouter(route_class=PlanRoute, tags=["Plans"])
_MADE_PROBLEMS = ("cluster_not_found", "audit_unavailable", "plan_infeasible", "no_improvement")


async def _find(services: Services, cluster: str, plan_id: str) -> PlanRow:
    services.engine.cluster(cluster)
    row = await services.database.read(get_plan, cluster=cluster, plan_id=plan_id)
    if row is None:
        raise ProblemError("plan_not_found", f"there is no plan {plan_id!r} of cluster {cluster!r}")
    return row


@router.get(
    "/clusters/{cluster}/plans",
    operation_id="listPlans",
    summary="List plans, newest first",
    response_model=PlanList,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def list_them(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
) -> Response:
    """List plans. Plans that were carried out stay; other plans are removed some days after they expire."""
    services.engine.cluster(cluster)
    rows = await services.database.read(
        list_plans, cluster=cluster, below=paging.after("plans", int, str), limit=paging.rows
    )
    page, token = paging.cut(rows, lambda row: ["plans", row.created_at_ms, row.id])
    return show(request, PlanList(items=[plan_summary(row) for row in page], next_page_token=token))


@router.post(
    "/clusters/{cluster}/plans",
    operation_id="makePlan",
    summary="Plan how to reach a goal",
    status_code=201,
    response_model=PlanView,
    responses={
        201: {"headers": {"Location": LOCATION_HEADERS["Location"]} | REPLAYED_HEADERS},
        200: {"model": PlanView, "description": "Dry run: the plan, which is not kept"},
        **problems("unknown_topic", "unknown_broker", *_MADE_PROBLEMS, *WRITE_PROBLEMS),
    },
)
async def make_it(*, body: MakePlan, services: Serving, write: Write, cluster: ClusterPath) -> Response:
    """Plan the moves to a goal, those with the largest benefit first, with the bytes that they copy and their
    outcome; nothing moves. Demands of the goal that can't be met are rejected partition by partition."""
    asked = Asked(
        cluster=cluster,
        action="make_plan",
        body=recorded(body),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(service.make_plan, services, cluster, body=body))


@router.get(
    "/clusters/{cluster}/plans/{plan_id:word}",
    operation_id="getPlan",
    summary="Look at a plan",
    response_model=PlanView,
    responses={
        200: {"headers": ETAG_HEADERS},
        **problems("cluster_not_found", "plan_not_found", "stored_by_later_release", "audit_unavailable"),
    },
)
async def get_it(request: Request, services: Serving, cluster: ClusterPath, plan_id: PlanPath) -> Response:
    """Show a plan as it was made. A dry run of its execution shows which partitions have changed since."""
    row = await _find(services, cluster, plan_id)
    moves = await services.database.read(get_moves, plan_id=row.id, limit=MOVES_SHOWN)
    return show(request, plan_row_view(row, [found.move for found in moves]), version=row.content_hash)


@router.get(
    "/clusters/{cluster}/plans/{plan_id:word}/moves",
    operation_id="listPlannedMoves",
    summary="List a plan's moves in their order",
    response_model=PlannedMoveList,
    responses=problems("cluster_not_found", "plan_not_found", "stored_by_later_release", "audit_unavailable"),
)
async def list_moves(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    plan_id: PlanPath,
    paging: Paged,
) -> Response:
    """List a plan's moves. Each move concerns one partition and is independent: a plan may be cut after any
    move."""
    row = await _find(services, cluster, plan_id)
    (after,) = paging.after("planned_moves", int) or (-1,)
    # A position is a 32-bit number in SQL; a forged token may hold any number.
    rows = await services.database.read(
        get_moves, plan_id=row.id, start=min(after + 1, row.moves), limit=paging.rows
    )
    page, token = paging.cut(rows, lambda found: ["planned_moves", found.position])
    items = [PlannedMoveView.of(found.move, position=found.position) for found in page]
    return show(request, PlannedMoveList(items=items, next_page_token=token))


@router.delete(
    "/clusters/{cluster}/plans/{plan_id:word}",
    operation_id="deletePlan",
    summary="Delete a plan that is not running",
    status_code=204,
    response_class=Response,
    responses={
        200: {"model": PlanView, "description": "Dry run: the plan that would go"},
        **problems(
            "cluster_not_found",
            "plan_not_found",
            "plan_executed",
            "stored_by_later_release",
            "audit_unavailable",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def delete_it(
    change: service.Changing,
    reason: Annotated[Reason | None, Query(description="kept in the audit")] = None,
) -> Response:
    """Delete a plan. A plan that was carried out is history and stays."""
    return await change.carry_out("delete_plan", service.delete_plan, {}, reason)


@router.post(
    "/clusters/{cluster}/plans/{plan_id:word}:execute",
    operation_id="executePlan",
    summary="Carry out a plan",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        PlanView,
        "Dry run: the plan as it would be carried out",
        "plan_not_found",
        "plan_stale",
        "plan_expired",
        "plan_executed",
        "stored_by_later_release",
        "plan_not_executable",
        "plan_tampered_with",
        "policy_violated",
        *_MADE_PROBLEMS,
        *CONDITION_PROBLEMS,
    ),
)
async def execute_it(body: ExecutePlan, change: service.Changing) -> Response:
    """Carry out a plan, a few partitions at a time, if every partition is as it was when the plan was made;
    otherwise 409 lists those that changed, and `drifted` says what to do about them. The operation can be
    paused, slowed down, cancelled and, when it has ended, undone."""
    asked = body.model_dump(mode="json")
    work = partial(service.execute_plan, body=body)
    return await change.carry_out("execute_plan", work, asked, body.reason, is_operation=True)
