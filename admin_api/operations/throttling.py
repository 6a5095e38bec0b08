"""Changing the copy rate of a reassignment's operation while it runs."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.cancelling import TRIES_MAX, check_unfinished, find_operation
from admin_api.operations.views import operation_view
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt, refusal_problem
from controller.core.events import AlterReassignments, ReassignmentsAltered, ReassignmentTarget
from controller.database.rows import OperationRow
from controller.operations.model import Fate, OperationState, Reassignment, decode_work, encode_work
from controller.operations.reassignments import fate_of
from controller.shell.outcomes import Overloaded


async def throttle_operation(
    services: Services,
    operation_id: str,
    attempt: Attempt,
    *,
    throttle_bytes_per_s: int | None,
    max_concurrent_moves: int | None,
    changed: Collection[str],
    condition: Condition,
) -> Answer:
    """Change the rate and answer 200 with the operation. The rate is stored in the rows of the partitions
    that are still moving, and ends with them. None removes it. changed: the fields in the request; the others
    stay as they are."""
    row = await find_operation(services, operation_id)
    check_unfinished(row)
    work = decode_work(row)
    if work.execution is not None:
        return await _amend(
            services,
            row,
            attempt,
            throttle_bytes_per_s=throttle_bytes_per_s,
            max_concurrent_moves=max_concurrent_moves,
            changed=changed,
            condition=condition,
        )
    spec = work.spec
    if not isinstance(spec, Reassignment):
        raise ProblemError("operation_moves_nothing", f"it is a {row.kind}", operation_id=row.id)
    if "throttle_bytes_per_s" not in changed:
        raise ProblemError("operation_moves_nothing", "its moves have all begun", operation_id=row.id)
    condition.check(str(row.revision), what=f"operation {row.id}")
    decided = services.engine.decided(row.cluster)
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
    reply = await services.engine.submit(
        row.cluster,
        AlterReassignments(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            operation_id=row.id,
            dry_run=attempt.dry_run,
            targets=targets,
            throttled_rate=throttle_bytes_per_s,
        ),
    )
    assert isinstance(reply, ReassignmentsAltered)
    for result in reply.results:
        if result.refusal is not None:
            raise refusal_problem(result.refusal)
    return Answer.of(200, operation_view(row, services.operations.live([row]).get(row.cluster)))


async def _amend(
    services: Services,
    row: OperationRow,
    attempt: Attempt,
    *,
    throttle_bytes_per_s: int | None,
    max_concurrent_moves: int | None,
    changed: Collection[str],
    condition: Condition,
) -> Answer:
    """Store the limits of an operation that carries out a plan. The runner's next look applies the rate to
    the moves that have begun."""
    for _ in range(TRIES_MAX):
        check_unfinished(row)
        condition.check(str(row.revision), what=f"operation {row.id}")
        work = decode_work(row)
        execution = work.execution
        assert execution is not None
        if "throttle_bytes_per_s" in changed:
            execution = msgspec.structs.replace(execution, throttle_bytes_per_s=throttle_bytes_per_s)
        if max_concurrent_moves is not None:
            execution = msgspec.structs.replace(execution, max_concurrent_moves=max_concurrent_moves)
        work = msgspec.structs.replace(work, execution=execution)
        stored: OperationRow | None
        if attempt.dry_run:
            stored = msgspec.structs.replace(row, body=encode_work(work))
        else:
            stored = await services.operations.amend(row, OperationState(row.state), work)
        if stored is not None:
            live = services.operations.live([stored]).get(stored.cluster)
            return Answer.of(200, operation_view(stored, live, services.operations.moving(stored.id)))
        row = await find_operation(services, row.id)
    raise Overloaded("the operation moves on faster than it can be changed")
