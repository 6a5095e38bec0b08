"""/clusters/{cluster}/plans/{plan_id}:approve: a second person's approval of a protected cluster's plan.

An approval is for one whole plan: a plan's rows never change, and a plan that is made again is another
plan.

Two actors are two persons as far as their names tell. A token's name is verified. Where tokens are not
used, a name is a claim (`unverified:alice@10.0.0.7`). The claimed name counts alone, without the address.
An actor that gave no name is not identified.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response
from pydantic import ConfigDict

from admin_api.http.answers import Answer, done
from admin_api.http.models import Reason, RequestBody, timestamp
from admin_api.http.problems import CONDITION_PROBLEMS, ProblemError
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services
from admin_api.http.writes import Attempt
from admin_api.operations.service import TRIES_MAX
from admin_api.plans.models import PlanView, stored_plan_view
from admin_api.plans.service import Changing, PlanChange
from controller.face.commands import Overloaded
from controller.face.database import OperationRow, get_operation
from controller.face.operations import OperationState

router = APIRouter(route_class=StrictRoute, tags=["Plans"])

_CLAIM: Final = "unverified:"
_ANONYMOUS: Final = "anonymous"


def name_of(actor: str) -> str | None:
    """Return the actor's name, or None if the actor gave none."""
    if actor == _ANONYMOUS or actor.startswith(f"{_ANONYMOUS}@"):
        return None
    if actor.startswith(_CLAIM):
        return actor.removeprefix(_CLAIM).rpartition("@")[0]
    return actor


def are_two_persons(one: str, other: str) -> bool:
    """Return whether the names are of two persons. Names that differ only in case are the same."""
    first, second = name_of(one), name_of(other)
    return first is not None and second is not None and first.casefold() != second.casefold()


async def approve_plan(change: PlanChange, attempt: Attempt) -> Answer:
    """Approve the plan and let the operation that waits for it continue. Answer 200 with the plan, also when
    the same person approves it again."""
    services = change.services
    for _ in range(TRIES_MAX):
        stored = await change.load()
        row = stored.row
        waiting = await _waiting(services, row.operation_id)
        _check_person(attempt.actor, row.actor, *([waiting.actor] if waiting is not None else []))
        approved_by = None if row.approval is None else row.approval["actor"]
        if attempt.dry_run or approved_by == attempt.actor:
            return Answer.of(200, stored_plan_view(stored))
        if approved_by is not None:
            raise ProblemError("plan_approved", f"{approved_by} has approved it")
        if row.operation_id is not None and waiting is None:
            raise ProblemError(
                "plan_executed", f"operation {row.operation_id} does not wait", operation_id=row.operation_id
            )
        if attempt.wall_ms >= row.expires_at_ms:
            raise ProblemError("plan_expired", "it could be executed until its `expires_at`")
        approval = {
            "actor": attempt.actor,
            "at": timestamp(attempt.wall_ms),
            "reason": attempt.reason,
            "content_hash": row.content_hash,
        }
        if await services.operations.approve(row, approval, waiting):
            return Answer.of(200, stored_plan_view(await change.load()))
    raise Overloaded("the plan's operation moves on faster than it can be approved")


async def _waiting(services: Services, operation_id: str | None) -> OperationRow | None:
    if operation_id is None:
        return None
    row = await services.database.read(get_operation, operation_id=operation_id)
    return row if row is not None and row.state == OperationState.AWAITING_APPROVAL else None


def _check_person(approver: str, *authors: str) -> None:
    """Raise same_person if the approver is one of the authors."""
    if name_of(approver) is None:
        raise ProblemError("same_person", "who approves needs a name: a token, or X-Actor without tokens")
    for author in authors:
        if not are_two_persons(approver, author):
            raise ProblemError("same_person", f"{author} made the plan or wants it carried out")


class ApprovePlan(RequestBody):
    """Why a plan may be carried out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "checked against the quota"}]})

    reason: Reason | None = None


@router.post(
    "/clusters/{cluster}/plans/{plan_id:word}:approve",
    operation_id="approvePlan",
    summary="Approve a plan that another person has made",
    response_model=PlanView,
    responses=done(
        "Approved; of a dry run, it could be",
        "cluster_not_found",
        "plan_not_found",
        "same_person",
        "plan_approved",
        "plan_executed",
        "plan_expired",
        "stored_by_later_release",
        "audit_unavailable",
        *CONDITION_PROBLEMS,
    ),
)
async def approve_it(body: ApprovePlan, change: Changing) -> Response:
    """Approve a plan of a protected cluster, as a person who has neither made it nor asked for its operation,
    which is `awaiting_approval`. The ETag is the plan's hash: exactly this plan is carried out, and a new one
    needs a new approval."""
    return await change.carry_out("approve_plan", approve_plan, body.model_dump(mode="json"), body.reason)
