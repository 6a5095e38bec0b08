"""/clusters/{cluster}/plans/{plan_id}:approve"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response
from pydantic import ConfigDict

from admin_api.approvals import service
from admin_api.clusters.routes import CONDITION_PROBLEMS, WRITE_PROBLEMS, ClusterPath
from admin_api.conditions import IfMatch
from admin_api.names import Reason
from admin_api.plans.routes import PlanPath
from admin_api.plans.views import PlanView
from admin_api.problem import problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute
from admin_api.views import RequestBody
from admin_api.writes import REPLAYED_HEADERS, Asked, Write
from controller.audit.change import Entity

router = APIRouter(route_class=StrictRoute, tags=["Plans"])


class ApprovePlan(RequestBody):
    """Why a plan may be carried out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "checked against the quota"}]})

    reason: Reason | None = None


@router.post(
    "/clusters/{cluster}/plans/{plan_id:word}:approve",
    operation_id="approvePlan",
    summary="Approve a plan that somebody else has made",
    response_model=PlanView,
    responses={
        200: {"description": "Approved; of a dry run, it could be", "headers": REPLAYED_HEADERS},
        **problems(
            "cluster_not_found",
            "plan_not_found",
            "same_person",
            "plan_approved",
            "plan_executed",
            "plan_expired",
            "audit_unavailable",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def approve_it(
    *,
    body: ApprovePlan,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    plan_id: PlanPath,
) -> Response:
    """Approve a plan of a protected cluster. The plan's operation is `awaiting_approval` until a person
    approves it who has neither made the plan nor asked for the operation. The ETag is the plan's hash:
    exactly the approved plan is carried out, and a plan that is made anew needs a new approval."""
    services.engine.image(cluster)
    asked = Asked(
        cluster=cluster,
        action="approve_plan",
        entity=Entity.CLUSTER,
        entity_id=cluster,
        body={"plan_id": plan_id} | body.model_dump(mode="json"),
        reason=body.reason,
    )
    return await write.carry_out(
        asked, partial(service.approve_plan, services, cluster, plan_id, condition=condition)
    )
