"""Changes how fast a reassignment's operation may copy, while it is on its way."""

from __future__ import annotations

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.cancelling import check_unfinished, find_operation
from admin_api.operations.model import Fate, Reassignment, decode_work
from admin_api.operations.reassignments import fate_of
from admin_api.operations.views import operation_view
from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt, refusal_problem
from controller.core.events import AlterReassignments, ReassignmentsAltered, ReassignmentTarget


async def throttle_operation(
    services: Services,
    operation_id: str,
    attempt: Attempt,
    *,
    throttle_bytes_per_s: int | None,
    condition: Condition,
) -> Answer:
    """200 with the operation: the rate stands in the rows of what is still on its way, and ends with them.
    None lifts it."""
    row = await find_operation(services, operation_id)
    check_unfinished(row)
    spec = decode_work(row).spec
    if not isinstance(spec, Reassignment):
        raise ProblemError("operation_moves_nothing", f"it is a {row.kind}", operation_id=row.id)
    condition.check(str(row.revision), what=f"operation {row.id}")
    decided = services.engine.decided(row.cluster)
    # In the state that was looked at: one that is rolled back meanwhile must not be sent on its way again.
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
