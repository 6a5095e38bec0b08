"""Cancelling, pausing, resuming and throttling of operations.

What a request asks is stored in the operation's row; the runner carries it out, under this controller or
the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Unpack

import msgspec
from fastapi import Depends

from admin_api.http.answers import Answer
from admin_api.http.conditions import IfMatch
from admin_api.http.models import OperationPath
from admin_api.http.problems import ProblemError, refusal_problem
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, ChangeFields, ResourceChange, Write, submit
from admin_api.operations.models import ChangeOperation, OperationView, accepted, daily, operation_view
from controller.face.commands import AlterReassignments, Overloaded, ReassignmentsAltered, ReassignmentTarget
from controller.face.database import OperationRow, get_operation
from controller.face.operations import (
    FINISHED,
    Cancellation,
    CancelMode,
    Fate,
    OperationState,
    Reassignment,
    Work,
    decode_work,
    encode_work,
    fate_of,
    state_of,
)

#: An operation's row changes as the operation progresses, so a write to it may need a few tries.
TRIES_MAX: Final = 5
_ENDED: Final = {
    OperationState.SUCCEEDED: "succeeded",
    OperationState.FAILED: "failed",
    OperationState.CANCELLED: "been cancelled",
}


async def find_operation(services: Services, operation_id: str) -> OperationRow:
    row = await services.database.read(get_operation, operation_id=operation_id)
    if row is None:
        raise ProblemError("operation_not_found", f"there is no operation {operation_id!r}")
    return row


def current_view(services: Services, row: OperationRow) -> OperationView:
    """Return the view with the progress of now, as far as this controller receives reports."""
    (view,) = current_views(services, [row])
    return view


def current_views(services: Services, rows: Sequence[OperationRow]) -> list[OperationView]:
    """Return the views of several operations, each as `current_view` does."""
    operations = services.operations
    live = operations.live(rows)
    return [
        operation_view(row, live.get(row.cluster), operations.moving(row.id), operations.pace(row.id))
        for row in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationChange(ResourceChange):
    """A request to change one operation."""

    operation_id: str

    async def asked(self, **fields: Unpack[ChangeFields]) -> Asked:
        row = await self.row()
        fields["body"] = {"operation_id": row.id, **fields["body"]}
        return Asked(cluster=row.cluster, **fields)

    async def row(self) -> OperationRow:
        """Return the operation's row. Raises operation_not_found."""
        return await find_operation(self.services, self.operation_id)

    def check_version(self, row: OperationRow) -> None:
        self.condition.check(str(row.revision), what=f"operation {row.id}")


async def operation_change(
    services: Serving, write: Write, condition: IfMatch, operation_id: OperationPath
) -> OperationChange:
    return OperationChange(services=services, write=write, condition=condition, operation_id=operation_id)


Changing = Annotated[OperationChange, Depends(operation_change)]


def check_unfinished(row: OperationRow) -> None:
    state = state_of(row)
    if state in FINISHED:
        raise ProblemError("operation_finished", f"it has {_ENDED[state]}", operation_id=row.id)


def is_planned(work: Work) -> bool:
    """Return whether the work carries out a plan, or will once a plan exists."""
    return work.execution is not None or any(step.name == "plan" for step in work.steps)


async def cancel_operation(change: OperationChange, attempt: Attempt, *, mode: CancelMode) -> Answer:
    """Cancel the operation and answer 202 with it. It is `cancelling` until its unfinished moves are back, or
    have arrived. A repeated request is not an error and does not change the mode."""
    services = change.services
    for _ in range(TRIES_MAX):
        row = await change.row()
        check_unfinished(row)
        work = decode_work(row)
        if not (isinstance(work.spec, Reassignment) or is_planned(work)):
            raise ProblemError("operation_not_cancellable", f"it is a {row.kind}", operation_id=row.id)
        if mode is CancelMode.KEEP and not is_planned(work):
            detail = "all of it is on its way: there is nothing that `keep` could leave out"
            raise ProblemError("operation_not_cancellable", detail, operation_id=row.id)
        change.check_version(row)
        by = Cancellation(
            actor=attempt.actor, reason=attempt.reason, request_id=attempt.request_id, mode=mode
        )
        if attempt.dry_run:
            body = encode_work(msgspec.structs.replace(work, cancellation=work.cancellation or by))
            cancelling = msgspec.structs.replace(row, state=OperationState.CANCELLING.value, body=body)
            return Answer.of(200, operation_view(cancelling))
        if row.state == OperationState.CANCELLING:
            return accepted(row)
        stored = await services.operations.cancel(row, by)
        if stored is not None:
            return accepted(stored)
    raise Overloaded("the operation moves on faster than it can be cancelled")


async def steer_operation(change: OperationChange, attempt: Attempt, *, to: OperationState) -> Answer:
    """Pause the operation (PAUSED) or resume it (RUNNING), and answer 200 with it. A paused operation begins
    no move, and moves that have begun are finished. An operation that was scheduled waits for its time again
    when it is resumed. A repeated request is not an error."""
    services = change.services
    for _ in range(TRIES_MAX):
        row = await change.row()
        check_unfinished(row)
        state, work = state_of(row), decode_work(row)
        if work.execution is None:
            raise ProblemError("operation_not_pausable", f"it is a {row.kind}", operation_id=row.id)
        change.check_version(row)
        if state in (OperationState.CANCELLING, OperationState.AWAITING_APPROVAL):
            raise ProblemError("operation_not_pausable", f"it is {state.value}", operation_id=row.id)
        is_there = state is to if to is OperationState.PAUSED else state is not OperationState.PAUSED
        if is_there or attempt.dry_run:
            return Answer.of(200, current_view(services, row))
        stored = await services.operations.amend(row, to, work)
        if stored is not None:
            return Answer.of(200, current_view(services, stored))
    raise Overloaded("the operation moves on faster than it can be paused")


async def throttle_operation(change: OperationChange, attempt: Attempt, *, body: ChangeOperation) -> Answer:
    """Change the rate and answer 200 with the operation. The rate is stored in the rows of the partitions
    that are still moving, and ends with them. None removes it. Fields that are not in the request stay as
    they are."""
    services = change.services
    row = await change.row()
    check_unfinished(row)
    work = decode_work(row)
    if work.execution is not None:
        return await _amend(change, row, attempt, body)
    spec = work.spec
    if not isinstance(spec, Reassignment):
        raise ProblemError("operation_moves_nothing", f"it is a {row.kind}", operation_id=row.id)
    if "throttle_bytes_per_s" not in body.model_fields_set:
        raise ProblemError("operation_moves_nothing", "its moves have all begun", operation_id=row.id)
    change.check_version(row)
    decided = services.engine.cluster(row.cluster).decided
    # The state must be the one that was read: a move that is rolled back meanwhile must not be started again.
    targets = tuple(
        ReassignmentTarget(
            topic_id=move.topic_id,
            partition=move.partition,
            replicas=move.replicas,
            partition_epoch=decided.partitions[move.key].partition_epoch,
        )
        for move in spec.moves
        if fate_of(decided, move) is Fate.MOVING
    )
    event = AlterReassignments(
        **attempt.event, operation_id=row.id, targets=targets, throttled_rate=body.throttle_bytes_per_s
    )
    reply = await submit(services.engine, row.cluster, event, ReassignmentsAltered)
    for result in reply.results:
        if result.refusal is not None:
            raise refusal_problem(result.refusal)
    return Answer.of(200, current_view(services, row))


async def _amend(
    change: OperationChange, row: OperationRow, attempt: Attempt, body: ChangeOperation
) -> Answer:
    """Store the limits of an operation that carries out a plan. The runner's next look applies the rate to
    the moves that have begun."""
    services = change.services
    for _ in range(TRIES_MAX):
        check_unfinished(row)
        change.check_version(row)
        work = decode_work(row)
        execution = work.execution
        assert execution is not None
        if "throttle_bytes_per_s" in body.model_fields_set:
            execution = msgspec.structs.replace(execution, throttle_bytes_per_s=body.throttle_bytes_per_s)
        if body.max_concurrent_moves is not None:
            execution = msgspec.structs.replace(execution, max_concurrent_moves=body.max_concurrent_moves)
        if "window" in body.model_fields_set:
            execution = msgspec.structs.replace(execution, window=daily(body.window))
        work = msgspec.structs.replace(work, execution=execution)
        stored: OperationRow | None
        if attempt.dry_run:
            stored = msgspec.structs.replace(row, body=encode_work(work))
        else:
            stored = await services.operations.amend(row, state_of(row), work)
        if stored is not None:
            return Answer.of(200, current_view(services, stored))
        row = await change.row()
    raise Overloaded("the operation moves on faster than it can be changed")
