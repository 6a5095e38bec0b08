"""The row of an operation that begins with a request."""

from __future__ import annotations

from admin_api.services import Services
from admin_api.writes import Attempt
from controller.database.rows import OperationRow
from controller.operations.model import FINISHED, OperationState, Work, encode_work, kind_of


def opened(
    services: Services, cluster: str, attempt: Attempt, work: Work, state: OperationState
) -> OperationRow:
    """Return the new operation's row. state: RUNNING, or one in which the operation is already finished. The
    deadline has no meaning for work without a time limit, but is shown all the same."""
    return OperationRow(
        id=attempt.operation_id,
        kind=kind_of(work),
        cluster=cluster,
        state=state.value,
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
        created_at_ms=attempt.wall_ms,
        started_at_ms=attempt.wall_ms,
        finished_at_ms=services.clock.now_wall_ms() if state in FINISHED else None,
        deadline_at_ms=attempt.wall_ms + services.settings.preflight_deadline_ms,
        body=encode_work(work),
    )
