"""Undoing of a finished operation: a plan of the inverse moves, made from today's state.

A partition that has changed since, by another operator's move for example, is a conflict and is listed. The
plan copies bytes again; a dry run shows how many before anything moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from admin_api.answers import Answer
from admin_api.conditions import Condition
from admin_api.operations.cancelling import find_operation
from admin_api.operations.views import accepted
from admin_api.plans.models import UndoOperation
from admin_api.plans.service import carry_out, check_outcome, order_of
from admin_api.plans.views import plan_view
from admin_api.problem import FieldProblem, ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt
from controller.contract.partition_state import PartitionKey
from controller.core.image import ClusterImage
from controller.core.planning.goals import Assign, WantedAssignment
from controller.core.planning.plan import Plan, PlanOutcome
from controller.database.operation_rows import get_operation
from controller.database.plan_rows import get_moves, plans_of
from controller.database.rows import OperationRow
from controller.operations.model import FINISHED, Fate, Move, Reassignment, decode_work
from controller.operations.outcome import PlanOrder
from controller.operations.shell.plans import Origin, make, plan_id_of, store_plan

CONFLICTS_SHOWN: Final = 100


async def undo_operation(
    services: Services,
    operation_id: str,
    attempt: Attempt,
    *,
    body: UndoOperation,
    condition: Condition,
) -> Answer:
    """Undo the operation and answer 202 with a new operation; for a dry run 200 with the plan that it would
    carry out."""
    row = await find_operation(services, operation_id)
    condition.check(str(row.revision), what=f"operation {row.id}")
    if row.state not in FINISHED:
        raise ProblemError("operation_running", f"it is {row.state}", operation_id=row.id)
    retry_after_s = services.settings.retry_after_s
    earlier = await services.database.read(partial(get_operation, operation_id=attempt.operation_id))
    if earlier is not None:
        # An earlier attempt under the same Idempotency-Key did it, and its answer was lost.
        return accepted(earlier, retry_after_s=retry_after_s)
    moves = await _made(services, row)
    if not moves:
        raise ProblemError(
            "operation_moves_nothing", "nothing that it moved has arrived", operation_id=row.id
        )
    image = services.engine.decided(row.cluster)
    conflicts = {move.key: why for move in moves if (why := _conflict(image, move)) is not None}
    if conflicts and not body.skip_conflicts:
        raise _conflicts(moves, conflicts, row)
    wanted = [move for move in moves if move.key not in conflicts]
    plan = await _inverse(services, row.cluster, wanted)
    rejected = {(found.topic_id, found.partition) for found in plan.rejections}
    if body.skip_conflicts and plan.outcome is PlanOutcome.INFEASIBLE:
        plan = await _inverse(services, row.cluster, [m for m in wanted if m.key not in rejected])
    check_outcome(plan)
    if attempt.dry_run:
        return Answer.of(200, plan_view(row.cluster, plan))
    origin = Origin(
        plan_id=plan_id_of(attempt.seed),
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
    )
    stored = await store_plan(
        services.engine, services.database, row.cluster, plan, origin, now_ms=attempt.wall_ms
    )
    order: PlanOrder = order_of(plan, body)
    return await carry_out(services, stored, attempt, order=order, undoes=row.id)


async def _made(services: Services, row: OperationRow) -> list[Move]:
    """Return the moves of the partitions that arrived, over all plans of the operation."""
    spec = decode_work(row).spec
    if isinstance(spec, Reassignment):
        fates = decode_work(row).fates
        return [move for move, fate in zip(spec.moves, fates, strict=True) if fate is Fate.MOVED]
    found: dict[PartitionKey, Move] = {}
    for plan in await services.database.read(partial(plans_of, operation_id=row.id)):
        made = await services.database.read(partial(get_moves, plan_id=plan.id, fates=(Fate.MOVED,)))
        for move in (item.move for item in made):
            first = found.get(move.key)
            found[move.key] = Move(
                topic=move.topic,
                topic_id=move.topic_id,
                partition=move.partition,
                original=move.replicas_before if first is None else first.original,
                replicas=move.replicas_after,
            )
    return [move for move in found.values() if move.original != move.replicas]


def _conflict(image: ClusterImage, move: Move) -> str | None:
    topic, state = image.topics.get(move.topic_id), image.partitions.get(move.key)
    if topic is None or topic.deleting or state is None:
        return "its topic was deleted"
    if state.is_reassigning:
        return f"it is on its way to brokers {list(state.target_replicas)}"
    if state.replicas != move.replicas:
        return f"it is on brokers {list(state.replicas)}, not where the operation left it"
    return None


def _conflicts(moves: Sequence[Move], conflicts: dict[PartitionKey, str], row: OperationRow) -> ProblemError:
    named = {move.key: f"{move.topic}-{move.partition}" for move in moves}
    errors = tuple(
        FieldProblem(pointer="/skip_conflicts", message=f"{named[key]}: {why}")
        for key, why in list(conflicts.items())[:CONFLICTS_SHOWN]
    )
    return ProblemError(
        "undo_conflicts",
        f"{len(conflicts)} of {len(moves)} partitions are not as the operation left them",
        errors=errors,
        facts={"conflicts": len(conflicts)},
        operation_id=row.id,
    )


async def _inverse(services: Services, cluster: str, moves: Sequence[Move]) -> Plan:
    goal = Assign(
        assignments=tuple(
            WantedAssignment(topic_id=move.topic_id, partition=move.partition, replicas=move.original)
            for move in moves
        )
    )
    return await make(services.engine, services.database, cluster, goal)
