"""/operations/{operation_id}:undo: a plan of the inverse"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response

from admin_api.clusters.routes import CONDITION_PROBLEMS, WRITE_PROBLEMS
from admin_api.conditions import IfMatch
from admin_api.operations.cancelling import find_operation
from admin_api.operations.routes import OperationPath
from admin_api.operations.views import LOCATION_HEADERS, OperationView
from admin_api.plans.models import UndoOperation
from admin_api.plans.undoing import undo_operation
from admin_api.plans.views import PlanView
from admin_api.problem import problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from admin_api.writes import REPLAYED_HEADERS, Asked, Write
from controller.audit.change import Entity

router = APIRouter(route_class=StrictRoute, tags=["Operations"])


@router.post(
    "/operations/{operation_id:word}:undo",
    operation_id="undoOperation",
    summary="Take back what a finished operation has moved",
    status_code=202,
    response_model=OperationView,
    responses={
        202: {
            "description": "Accepted: an operation of its own, to be followed",
            "headers": LOCATION_HEADERS | REPLAYED_HEADERS,
        },
        200: {"model": PlanView, "description": "Dry run: what would move back, and what that copies"},
        **problems(
            "operation_not_found",
            "operation_running",
            "operation_moves_nothing",
            "undo_conflicts",
            "plan_executed",
            "policy_violated",
            "plan_infeasible",
            "no_improvement",
            "audit_unavailable",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def undo_it(
    *,
    body: UndoOperation,
    services: Serving,
    write: Write,
    condition: IfMatch,
    operation_id: OperationPath,
) -> Response:
    """Undo an operation. Each partition that arrived goes back to the brokers it came from, if it is still
    where the operation left it. Partitions that have changed since are listed (409), or left out. Bytes are
    copied again: a dry run shows how many."""
    row = await find_operation(services, operation_id)
    asked = Asked(
        cluster=row.cluster,
        action="undo_operation",
        entity=Entity.CLUSTER,
        entity_id=row.cluster,
        body={"operation_id": row.id} | body.model_dump(mode="json"),
        reason=body.reason,
        is_operation=True,
    )
    return await write.carry_out(
        asked, partial(undo_operation, services, operation_id, body=body, condition=condition)
    )
