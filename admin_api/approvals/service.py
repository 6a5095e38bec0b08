"""Approval of plans. An approval is for one whole plan: a plan's rows never change, and a plan that is made
anew is another plan."""

from __future__ import annotations

from functools import partial

from admin_api.answers import Answer
from admin_api.approvals.persons import are_two_persons, name_of
from admin_api.conditions import Condition
from admin_api.names import timestamp
from admin_api.plans.making import load_plan
from admin_api.plans.views import stored_plan_view
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt
from controller.database.operation_rows import get_operation
from controller.database.rows import OperationRow
from controller.operations.model import OperationState
from controller.shell.outcomes import Overloaded

#: An operation's row changes as the operation progresses, so an approval of it may need a few tries.
_TRIES_MAX = 5


async def approve_plan(
    services: Services, cluster: str, plan_id: str, attempt: Attempt, *, condition: Condition
) -> Answer:
    """Approve the plan and let the operation that waits for it continue. Answer 200 with the plan, also when
    the same person approves it again."""
    for _ in range(_TRIES_MAX):
        stored = await load_plan(services, cluster, plan_id)
        row = stored.row
        condition.check(row.content_hash, what=f"plan {plan_id}")
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
            return Answer.of(200, stored_plan_view(await load_plan(services, cluster, plan_id)))
    raise Overloaded("the plan's operation moves on faster than it can be approved")


async def _waiting(services: Services, operation_id: str | None) -> OperationRow | None:
    if operation_id is None:
        return None
    row = await services.database.read(partial(get_operation, operation_id=operation_id))
    return row if row is not None and row.state == OperationState.AWAITING_APPROVAL else None


def _check_person(approver: str, *authors: str) -> None:
    """Raise same_person if the approver is one of the authors."""
    if name_of(approver) is None:
        raise ProblemError("same_person", "whoever approves needs a name: a token, or X-Actor without tokens")
    for author in authors:
        if not are_two_persons(approver, author):
            raise ProblemError("same_person", f"{author} made the plan or wants it carried out")
