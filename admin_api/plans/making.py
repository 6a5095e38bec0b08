"""Loading of plans for requests."""

from __future__ import annotations

from admin_api.problem import ProblemError
from admin_api.services import Services
from controller.operations.shell.plans import StoredPlan, find_plan


async def load_plan(services: Services, cluster: str, plan_id: str) -> StoredPlan:
    """Return the plan; raise plan_not_found if it does not exist."""
    found = await find_plan(services.database, cluster, plan_id)
    if found is None:
        raise ProblemError("plan_not_found", f"there is no plan {plan_id!r} of cluster {cluster!r}")
    return found
