"""Making, showing, deleting and carrying out plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Unpack

import msgspec
from fastapi import Depends

from admin_api.http.answers import Answer
from admin_api.http.conditions import IfMatch
from admin_api.http.models import ClusterPath, PlanPath, milliseconds
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, ChangeFields, ResourceChange, Write, begun_before, opened
from admin_api.operations.models import accepted, daily
from admin_api.plans.goals import destinations_of, goal_of, measured_of
from admin_api.plans.models import (
    AssignGoal,
    CarryOut,
    ExecutePlan,
    GoalBody,
    MakePlan,
    plan_view,
    stored_plan_view,
)
from admin_api.policies.service import check_verdicts
from controller.face.cluster import ClusterImage
from controller.face.operations import (
    OperationState,
    PlanExecution,
    PlanOrder,
    ReplicationFactorChange,
    begin_execution,
    begin_plan_execution,
)
from controller.face.plans import (
    Assign,
    Plan,
    PlanOrigin,
    PlanOutcome,
    Rejection,
    StoredPlan,
    content_hash,
    drifted,
    find_plan,
    make,
    moves_within,
    plan_id_of,
    plan_row,
    replanned,
    snapshot_of,
    store_plan,
    without,
)
from controller.face.plans import delete_plan as delete_stored_plan
from controller.face.policies import needs_approval, verdicts_on
from springtide.contract.partition_state import PartitionKey


async def load_plan(services: Services, cluster: str, plan_id: str) -> StoredPlan:
    """Return the plan; raise plan_not_found if it does not exist."""
    found = await find_plan(services.database, cluster, plan_id)
    if found is None:
        raise ProblemError("plan_not_found", f"there is no plan {plan_id!r} of cluster {cluster!r}")
    return found


#: The most errors in one problem about a plan; `facts` count all.
ERRORS_SHOWN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange(ResourceChange):
    """A request to change one plan."""

    cluster: str
    plan_id: str

    async def asked(self, **fields: Unpack[ChangeFields]) -> Asked:
        fields["body"] = {"plan_id": self.plan_id, **fields["body"]}
        return Asked(cluster=self.cluster, **fields)

    async def load(self) -> StoredPlan:
        """Return the plan; raise plan_not_found, or precondition_failed if it is another one."""
        stored = await load_plan(self.services, self.cluster, self.plan_id)
        self.condition.check(stored.row.content_hash, what=f"plan {self.plan_id}")
        return stored


async def plan_change(
    services: Serving, write: Write, condition: IfMatch, cluster: ClusterPath, plan_id: PlanPath
) -> PlanChange:
    return PlanChange(services=services, write=write, condition=condition, cluster=cluster, plan_id=plan_id)


Changing = Annotated[PlanChange, Depends(plan_change)]


async def make_plan(services: Services, cluster: str, attempt: Attempt, *, body: MakePlan) -> Answer:
    """Make the plan and answer 201 with it; for a dry run answer 200 with a plan that is not stored."""
    image = services.engine.cluster(cluster).decided
    goal = goal_of(body.goal, image)
    plan = await make(
        services.engine,
        services.database,
        cluster,
        goal,
        measured=measured_of(body.goal, image),
        destinations=destinations_of(body, image),
    )
    check_outcome(plan, _pointers(body.goal, plan))
    verdicts = await verdicts_on(services.engine, services.database, cluster, plan)
    if attempt.dry_run:
        return Answer.of(200, plan_view(cluster, plan, verdicts))
    stored = await store_plan(
        services.engine,
        services.database,
        cluster,
        plan,
        origin_of(attempt),
        now_ms=attempt.wall_ms,
        expires_ms=body.expires_in_s * 1000,
        verdicts=verdicts,
    )
    return Answer.of(201, stored_plan_view(stored), Location=f"/clusters/{cluster}/plans/{stored.row.id}")


def check_outcome(plan: Plan, pointers: Sequence[str] = ()) -> None:
    """Raise plan_infeasible or no_improvement if the plan is either. pointers: the place in the body that
    caused each rejection."""
    if plan.outcome is PlanOutcome.READY:
        return
    is_infeasible = plan.outcome is PlanOutcome.INFEASIBLE
    found = plan.rejections if is_infeasible else plan.skipped
    where = [*pointers, *["/goal"] * (len(found) - len(pointers))]
    errors = tuple(
        FieldProblem(pointer=pointer, message=_said(rejection))
        for pointer, rejection in zip(where, found[:ERRORS_SHOWN], strict=False)
    )
    code = "plan_infeasible" if is_infeasible else "no_improvement"
    detail = errors[0].message if errors else "everything is as the goal wants it"
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    facts: dict[str, Any] = {"reasons": len(found)}
    if plan.after.loads is not msgspec.UNSET:
        facts |= plan_view("", plan).model_dump(include={"before", "after", "skipped"})
    raise ProblemError(code, f"{detail}{more}", errors=errors, facts=facts)


def _said(found: Rejection) -> str:
    where = "" if found.partition is None else f"{found.topic or found.topic_id}-{found.partition}: "
    return f"{where}{found.detail} ({found.code.value})"


def _pointers(goal: GoalBody, plan: Plan) -> list[str]:
    """Return a pointer for each rejection of listed assignments. The planner keeps the order of the
    request."""
    if not isinstance(goal, AssignGoal) or not isinstance(plan.goal, Assign):
        return []
    places: dict[PartitionKey, int] = {}
    for place, wanted in enumerate(plan.goal.assignments):
        places[wanted.key] = place
    return [
        f"/goal/assignments/{places[found.topic_id, found.partition]}"
        if found.topic_id is not None
        and found.partition is not None
        and (found.topic_id, found.partition) in places
        else "/goal"
        for found in plan.rejections
    ]


async def delete_plan(change: PlanChange, attempt: Attempt) -> Answer:
    """Delete the plan and answer 204. It can no longer be carried out."""
    stored = await change.load()
    _check_unclaimed(stored, attempt)
    if attempt.dry_run:
        return Answer.of(200, stored_plan_view(stored))
    if not await change.services.database.write(delete_stored_plan, plan_id=change.plan_id):
        raise ProblemError("plan_executed", "an operation has begun to carry it out")
    return Answer(204, b"")


async def execute_plan(change: PlanChange, attempt: Attempt, *, body: ExecutePlan) -> Answer:
    """Execute the plan and answer 202 with the operation that carries it out, now or at its scheduled
    time."""
    services = change.services
    stored = await change.load()
    if stored.row.operation_id == attempt.operation_id:
        begun = await begun_before(services, attempt)
        if begun is not None:
            return begun
    _check_unclaimed(stored, attempt)
    if attempt.wall_ms >= stored.row.expires_at_ms:
        raise ProblemError("plan_expired", "it could be executed until its `expires_at`")
    if await services.database.compute(partial(content_hash, stored.plan)) != stored.row.content_hash:
        raise ProblemError("plan_tampered_with", f"the hash of plan {change.plan_id} is another one")
    if stored.plan.outcome is not PlanOutcome.READY:
        raise ProblemError("plan_not_executable", f"its outcome is {stored.plan.outcome.value}")
    stored = await _as_of_now(services, stored, attempt, body=body)
    moves = _cut(stored.plan, body)
    return await carry_out(services, stored, attempt, order=order_of(stored.plan, body), moves=moves)


async def carry_out(
    services: Services,
    stored: StoredPlan,
    attempt: Attempt,
    *,
    order: PlanOrder,
    moves: int | None = None,
    undoes: str | None = None,
    spec: ReplicationFactorChange | None = None,
) -> Answer:
    """Answer 202 with the operation; for a dry run 200 with the plan. undoes: the operation that this one
    undoes. spec: of another kind of operation; None if an operator executes a plan. The policies
    are checked again: the policies or the cluster may have changed since the plan was made."""
    cluster = stored.row.cluster
    check_verdicts(await verdicts_on(services.engine, services.database, cluster, stored.plan))
    if attempt.dry_run:
        return Answer.of(200, stored_plan_view(stored))
    execution = begin_execution(stored.row.id, stored.plan, order, moves=moves)
    is_later = attempt.wall_ms < (order.not_before_ms or 0)
    work = begin_plan_execution(spec or PlanExecution(plan_id=stored.row.id, undoes=undoes), execution)
    state = OperationState.SCHEDULED if is_later else OperationState.RUNNING
    if needs_approval(services.engine, stored.row):
        state = OperationState.AWAITING_APPROVAL
    row = opened(services, stored.row.cluster, attempt, work, state)
    if not await services.operations.execute(row, stored.row.id):
        raise ProblemError("plan_executed", "an operation has begun to carry it out")
    return accepted(row)


def _check_unclaimed(stored: StoredPlan, attempt: Attempt) -> None:
    by = stored.row.operation_id
    if by is not None and by != attempt.operation_id:
        raise ProblemError("plan_executed", f"operation {by} carries it out, or has", operation_id=by)


def _cut(plan: Plan, body: ExecutePlan) -> int:
    moves = len(plan.moves) if body.moves is None else min(body.moves, len(plan.moves))
    if body.bytes_max is not None:
        moves = min(moves, moves_within(plan, body.bytes_max))
    if moves == 0:
        field = FieldProblem(pointer="/bytes_max", message="the first move copies more")
        raise ProblemError("no_improvement", field.message, errors=(field,))
    return moves


def order_of(plan: Plan, body: CarryOut) -> PlanOrder:
    return PlanOrder(
        goal=plan.goal,
        throttle_bytes_per_s=body.throttle_bytes_per_s,
        max_concurrent_moves=body.max_concurrent_moves,
        not_before_ms=milliseconds(body.not_before),
        window=daily(body.window),
    )


async def _as_of_now(
    services: Services, stored: StoredPlan, attempt: Attempt, *, body: ExecutePlan
) -> StoredPlan:
    """Return the plan if it still fits, or the plan that the request wants instead. Raises plan_stale."""
    cluster, plan = stored.row.cluster, stored.plan
    image = services.engine.cluster(cluster).decided
    stale = _stale(plan, image)
    if not stale:
        return stored
    if body.drifted == "refuse":
        raise _stale_problem(plan, image, stale)
    make_new = replanned if body.drifted == "re_plan" else without
    snapshot = await snapshot_of(services.engine, services.database, cluster)
    new = await services.database.compute(partial(make_new, snapshot, plan, frozenset(stale)))
    check_outcome(new)
    if attempt.dry_run:
        row = plan_row(
            new,
            plan_id=stored.row.id,
            cluster=cluster,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            created_at_ms=attempt.wall_ms,
            expires_at_ms=stored.row.expires_at_ms,
        )
        return StoredPlan(row=row, plan=new)
    return await store_plan(
        services.engine, services.database, cluster, new, origin_of(attempt), now_ms=attempt.wall_ms
    )


def _stale(plan: Plan, image: ClusterImage) -> list[PartitionKey]:
    """Return the partitions that have changed, and those with a move to a broker that is no longer a
    member."""
    changed = dict.fromkeys(drifted(plan, image))
    for move in plan.moves:
        if any(b not in image.brokers or not image.brokers[b].admitted for b in move.replicas_after):
            changed[move.key] = None
    return list(changed)


def _stale_problem(plan: Plan, image: ClusterImage, stale: Sequence[PartitionKey]) -> ProblemError:
    moves = {move.key: (position, move) for position, move in enumerate(plan.moves)}
    errors = []
    for key in stale[:ERRORS_SHOWN]:
        position, move = moves[key]
        state = image.partitions.get(key)
        now = "is gone" if state is None else f"is at epoch {state.partition_epoch}"
        message = f"{move.topic}-{move.partition} {now}; the plan was made from epoch {move.partition_epoch}"
        errors.append(FieldProblem(pointer=f"/moves/{position}", message=message))
    return ProblemError(
        "plan_stale",
        f"{len(stale)} of {len(plan.moves)} partitions have changed since the plan was made",
        errors=tuple(errors),
        facts={"drifted": len(stale)},
    )


def origin_of(attempt: Attempt) -> PlanOrigin:
    return PlanOrigin(
        plan_id=plan_id_of(attempt.seed),
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
    )
