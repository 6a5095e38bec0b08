"""Cancels operations: writes down that one is to be undone, which the runner then does, now or under the next
controller."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.model import FINISHED, Cancellation, OperationState, Reassignment, decode_work
from admin_api.operations.views import accepted, operation_view
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt
from controller.audit.operation_rows import OperationRow, get_operation
from controller.shell.outcomes import Overloaded

#: An operation's row moves when it gets on; a few tries find it still.
_TRIES_MAX: Final = 5


async def find_operation(services: Services, operation_id: str) -> OperationRow:
    row = await services.audit.read(partial(get_operation, operation_id=operation_id))
    if row is None:
        raise ProblemError("operation_not_found", f"there is no operation {operation_id!r}")
    return row


def check_unfinished(row: OperationRow) -> None:
    state = OperationState(row.state)
    if state in FINISHED:
        raise ProblemError("operation_finished", f"it has {_ENDED[state]}", operation_id=row.id)


async def cancel_operation(
    services: Services, operation_id: str, attempt: Attempt, *, condition: Condition
) -> Answer:
    """202 with the operation, which is `cancelling` until what it moved is back. Asking again is no error."""
    for _ in range(_TRIES_MAX):
        row = await find_operation(services, operation_id)
        check_unfinished(row)
        if not isinstance(decode_work(row).spec, Reassignment):
            raise ProblemError("operation_not_cancellable", f"it is a {row.kind}", operation_id=row.id)
        condition.check(str(row.revision), what=f"operation {row.id}")
        retry_after_s = services.settings.retry_after_s
        if attempt.dry_run:
            cancelling = msgspec.structs.replace(row, state=OperationState.CANCELLING.value)
            return Answer.of(200, operation_view(cancelling))
        if row.state == OperationState.CANCELLING:
            return accepted(row, retry_after_s=retry_after_s)
        by = Cancellation(actor=attempt.actor, reason=attempt.reason, request_id=attempt.request_id)
        stored = await services.operations.cancel(row, by)
        if stored is not None:
            return accepted(stored, retry_after_s=retry_after_s)
    raise Overloaded("the operation moves on faster than it can be cancelled")


_ENDED: Final = {
    OperationState.SUCCEEDED: "succeeded",
    OperationState.FAILED: "failed",
    OperationState.CANCELLED: "been cancelled",
}
