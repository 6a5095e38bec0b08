"""Pausing and resuming of operations that carry out plans."""

from __future__ import annotations

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.cancelling import TRIES_MAX, check_unfinished, find_operation
from admin_api.operations.views import OperationView, operation_view
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt
from controller.database.rows import OperationRow
from controller.operations.model import OperationState, decode_work
from controller.shell.outcomes import Overloaded


async def pause_operation(
    services: Services, operation_id: str, attempt: Attempt, *, condition: Condition
) -> Answer:
    """Pause the operation and answer 200 with it. It begins no move, and moves that have begun are finished.
    A repeated request is not an error."""
    return await _steer(services, operation_id, attempt, condition=condition, to=OperationState.PAUSED)


async def resume_operation(
    services: Services, operation_id: str, attempt: Attempt, *, condition: Condition
) -> Answer:
    """Resume the operation and answer 200 with it. An operation that was scheduled waits for its time again.
    An operation that is not paused does not change."""
    return await _steer(services, operation_id, attempt, condition=condition, to=OperationState.RUNNING)


async def _steer(
    services: Services,
    operation_id: str,
    attempt: Attempt,
    *,
    condition: Condition,
    to: OperationState,
) -> Answer:
    for _ in range(TRIES_MAX):
        row = await find_operation(services, operation_id)
        check_unfinished(row)
        state, work = OperationState(row.state), decode_work(row)
        if work.execution is None:
            raise ProblemError("operation_not_pausable", f"it is a {row.kind}", operation_id=row.id)
        condition.check(str(row.revision), what=f"operation {row.id}")
        if state in (OperationState.CANCELLING, OperationState.AWAITING_APPROVAL):
            raise ProblemError("operation_not_pausable", f"it is {state.value}", operation_id=row.id)
        is_there = state is to if to is OperationState.PAUSED else state is not OperationState.PAUSED
        if is_there or attempt.dry_run:
            return Answer.of(200, _shown(services, row))
        stored = await services.operations.amend(row, to, work)
        if stored is not None:
            return Answer.of(200, _shown(services, stored))
    raise Overloaded("the operation moves on faster than it can be paused")


def _shown(services: Services, row: OperationRow) -> OperationView:
    live = services.operations.live([row]).get(row.cluster)
    return operation_view(row, live, services.operations.moving(row.id))
