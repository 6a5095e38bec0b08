"""Makes plans for requests, and finds them again."""

from __future__ import annotations

from admin_api.problem import ProblemError
from admin_api.services import Services
from controller.core.planning.goals import Goal
from controller.core.planning.plan import Plan
from controller.core.planning.snapshot import Measured
from controller.operations.shell.plans import StoredPlan, find_plan
from controller.operations.shell.plans import make as make_plan_now


async def make(services: Services, cluster: str, goal: Goal, measured: Measured | None = None) -> Plan:
    """The dry form: a plan that nobody keeps. An outcome other than READY is no error here. Raises NotActive,
    UnknownCluster."""
    return await make_plan_now(services.engine, services.database, cluster, goal, measured)


async def load_plan(services: Services, cluster: str, plan_id: str) -> StoredPlan:
    """Raises plan_not_found."""
    found = await find_plan(services.database, cluster, plan_id)
    if found is None:
        raise ProblemError("plan_not_found", f"there is no plan {plan_id!r} of cluster {cluster!r}")
    return found
