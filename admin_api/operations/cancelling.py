"""Cancellation of operations. The request is stored; the runner then undoes the operation, under this
controller or the next."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.views import accepted, operation_view
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt
from controller.database.operation_rows import get_operation
from controller.database.rows import OperationRow
from controller.operations.model import (
    FINISHED,
    Cancellation,
    CancelMode,
    OperationState,
    Reassignment,
    Work,
    decode_work,
)
from controller.shell.outcomes import Overloaded

#: An operation's row changes as the operation progresses, so a write to it may need a few tries.
TRIES_MAX: Final = 5


async def find_operation(services: Services, operation_id: str) -> OperationRow:
    row = await services.database.read(partial(get_operation, operation_id=operation_id))
    if row is None:
        raise ProblemError("operation_not_found", f"there is no operation {operation_id!r}")
    return row


def check_unfinished(row: OperationRow) -> None:
    state = OperationState(row.state)
    if state in FINISHED:
        raise ProblemError("operation_finished", f"it has {_ENDED[state]}", operation_id=row.id)


def is_planned(work: Work) -> bool:
    """Return whether the work carries out a plan, or will once a plan exists."""
    return work.execution is not None or any(step.name == "plan" for step in work.steps)


async def cancel_operation(
    services: Services,
    operation_id: str,
    attempt: Attempt,
    *,
    condition: Condition,
    mode: CancelMode = CancelMode.ROLLBACK,
) -> Answer:
    """Cancel the operation and answer 202 with it. It is `cancelling` until its unfinished moves are back, or
    have arrived. A repeated request is not an error and does not change the mode."""
    for _ in range(TRIES_MAX):
        row = await find_operation(services, operation_id)
        check_unfinished(row)
        work = decode_work(row)
        if not (isinstance(work.spec, Reassignment) or is_planned(work)):
            raise ProblemError("operation_not_cancellable", f"it is a {row.kind}", operation_id=row.id)
        if mode is CancelMode.KEEP and not is_planned(work):
            detail = "all of it is on its way: there is nothing that `keep` could leave out"
            raise ProblemError("operation_not_cancellable", detail, operation_id=row.id)
        condition.check(str(row.revision), what=f"operation {row.id}")
        retry_after_s = services.settings.retry_after_s
        if attempt.dry_run:
            cancelling = msgspec.structs.replace(row, state=OperationState.CANCELLING.value)
            return Answer.of(200, operation_view(cancelling))
        if row.state == OperationState.CANCELLING:
            return accepted(row, retry_after_s=retry_after_s)
        by = Cancellation(
            actor=attempt.actor, reason=attempt.reason, request_id=attempt.request_id, mode=mode
        )
        stored = await services.operations.cancel(row, by)
        if stored is not None:
            return accepted(stored, retry_after_s=retry_after_s)
    raise Overloaded("the operation moves on faster than it can be cancelled")


_ENDED: Final = {
    OperationState.SUCCEEDED: "succeeded",
    OperationState.FAILED: "failed",
    OperationState.CANCELLED: "been cancelled",
}
