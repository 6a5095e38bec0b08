"""/operations/{operation_id}:undo: a plan of the inverse moves of a finished operation, made from today's
state.

A partition that has changed since, by another operator's move for example, is a conflict and is listed.
The plan copies bytes again; a dry run shows how many before anything moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from fastapi import APIRouter, Response

from admin_api.http.answers import Answer, accepted
from admin_api.http.problems import CONDITION_PROBLEMS, FieldProblem, ProblemError
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, begun_before
from admin_api.operations.models import OperationView
from admin_api.operations.service import Changing, OperationChange
from admin_api.plans.models import PlanView, UndoOperation, plan_view
from admin_api.plans.service import carry_out, check_outcome, order_of, origin_of
from controller.face.cluster import ClusterImage
from controller.face.database import OperationRow
from controller.face.operations import FINISHED, Fate, Reassignment, ReassignmentMove, decode_work
from controller.face.plans import (
    Assign,
    Plan,
    PlanOutcome,
    WantedAssignment,
    get_moves,
    make,
    plans_of,
    store_plan,
)
from springtide.contract.partition_state import PartitionKey

router = APIRouter(route_class=StrictRoute, tags=["Operations"])

CONFLICTS_SHOWN: Final = 100


async def undo_operation(change: OperationChange, attempt: Attempt, *, body: UndoOperation) -> Answer:
    """Undo the operation and answer 202 with a new operation; for a dry run 200 with the plan that it would
    carry out."""
    services = change.services
    row = await change.row()
    change.check_version(row)
    if row.state not in FINISHED:
        raise ProblemError("operation_running", f"it is {row.state}", operation_id=row.id)
    earlier = await begun_before(services, attempt)
    if earlier is not None:
        return earlier
    moves = await _made(services, row)
    if not moves:
        raise ProblemError(
            "operation_moves_nothing", "nothing that it moved has arrived", operation_id=row.id
        )
    image = services.engine.cluster(row.cluster).decided
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
    stored = await store_plan(
        services.engine, services.database, row.cluster, plan, origin_of(attempt), now_ms=attempt.wall_ms
    )
    return await carry_out(services, stored, attempt, order=order_of(plan, body), undoes=row.id)


async def _made(services: Services, row: OperationRow) -> list[ReassignmentMove]:
    """Return the moves of the partitions that arrived, over all plans of the operation."""
    spec = decode_work(row).spec
    if isinstance(spec, Reassignment):
        fates = decode_work(row).fates
        return [move for move, fate in zip(spec.moves, fates, strict=True) if fate is Fate.MOVED]
    found: dict[PartitionKey, ReassignmentMove] = {}
    for plan in await services.database.read(plans_of, operation_id=row.id):
        made = await services.database.read(get_moves, plan_id=plan.id, fates=(Fate.MOVED,))
        for move in (item.move for item in made):
            first = found.get(move.key)
            found[move.key] = ReassignmentMove(
                topic=move.topic,
                topic_id=move.topic_id,
                partition=move.partition,
                original=move.replicas_before if first is None else first.original,
                replicas=move.replicas_after,
            )
    return [move for move in found.values() if move.original != move.replicas]


def _conflict(image: ClusterImage, move: ReassignmentMove) -> str | None:
    topic, state = image.topics.get(move.topic_id), image.partitions.get(move.key)
    if topic is None or topic.deleting or state is None:
        return "its topic was deleted"
    if state.is_reassigning:
        return f"it is on its way to brokers {list(state.target_replicas)}"
    if state.replicas != move.replicas:
        return f"it is on brokers {list(state.replicas)}, not where the operation left it"
    return None


def _conflicts(
    moves: Sequence[ReassignmentMove], conflicts: dict[PartitionKey, str], row: OperationRow
) -> ProblemError:
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


async def _inverse(services: Services, cluster: str, moves: Sequence[ReassignmentMove]) -> Plan:
    goal = Assign(
        assignments=tuple(
            WantedAssignment(topic_id=move.topic_id, partition=move.partition, replicas=move.original)
            for move in moves
        )
    )
    return await make(services.engine, services.database, cluster, goal)


@router.post(
    "/operations/{operation_id:word}:undo",
    operation_id="undoOperation",
    summary="Take back what a finished operation has moved",
    status_code=202,
    response_model=OperationView,
    responses=accepted(
        PlanView,
        "Dry run: what would move back, and what that copies",
        "operation_not_found",
        "operation_running",
        "operation_moves_nothing",
        "undo_conflicts",
        "plan_executed",
        "policy_violated",
        "plan_infeasible",
        "no_improvement",
        "stored_by_later_release",
        "audit_unavailable",
        *CONDITION_PROBLEMS,
        description="Accepted: an operation of its own, to be followed",
    ),
)
async def undo_it(body: UndoOperation, change: Changing) -> Response:
    """Move each partition that arrived back to the brokers it came from; those that have changed since are
    listed (409), or left out. Bytes are copied again: a dry run shows how many."""
    asked = body.model_dump(mode="json")
    work = partial(undo_operation, body=body)
    return await change.carry_out("undo_operation", work, asked, body.reason, is_operation=True)
