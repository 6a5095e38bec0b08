"""Makes plans for requests, and finds them again."""

from __future__ import annotations

from admin_api.problem import ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt
from controller.core.planning.goals import Goal
from controller.core.planning.plan import Plan
from controller.operations.shell.plans import (
    PLAN_EXPIRES_MS,
    Origin,
    StoredPlan,
    find_plan,
    keep_plan,
    plan_id_of,
)
from controller.operations.shell.plans import make as make_plan_now


async def make(services: Services, cluster: str, goal: Goal) -> Plan:
    """The dry form: a plan that nobody keeps. An outcome other than READY is no error here. Raises NotActive,
    UnknownCluster."""
    return await make_plan_now(services.engine, services.database, cluster, goal)


async def make_and_store(
    services: Services, cluster: str, goal: Goal, attempt: Attempt, *, expires_ms: int = PLAN_EXPIRES_MS
) -> StoredPlan:
    """A plan that stays, pinned to the partition epochs it was made from and named after the attempt: another
    attempt under the same Idempotency-Key gets the first one's. expires_ms: from now, until when it may be
    executed. Raises NotActive, UnknownCluster, DatabaseUnavailable."""
    origin = Origin(
        plan_id=plan_id_of(attempt.seed),
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
    )
    now_ms = services.clock.now_wall_ms()
    return await keep_plan(
        services.engine, services.database, cluster, goal, origin, now_ms=now_ms, expires_ms=expires_ms
    )


async def load_plan(services: Services, cluster: str, plan_id: str) -> StoredPlan:
    """Raises plan_not_found."""
    found = await find_plan(services.database, cluster, plan_id)
    if found is None:
        raise ProblemError("plan_not_found", f"there is no plan {plan_id!r} of cluster {cluster!r}")
    return found
