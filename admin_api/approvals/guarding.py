"""What stands between a plan and its first move: the cluster's policies, and on a protected cluster a second
person's approval."""

from __future__ import annotations

import msgspec

from admin_api.operations.model import OperationState
from admin_api.operations.outcome import Advance, fail
from admin_api.plans.keeping import find_plan
from admin_api.policies.judging import breaches, verdicts_on
from admin_api.ports import EnginePort
from admin_api.problem import ProblemError
from admin_api.protection import is_protected
from controller.audit.plan_rows import PlanRow
from controller.audit.store import AuditStore


def needs_approval(engine: EnginePort, row: PlanRow) -> bool:
    """Raises NotActive."""
    return row.approval is None and is_protected(engine, row.cluster)


def check_is_planned(engine: EnginePort, cluster: str) -> None:
    """Raises approval_required: on a protected cluster nothing moves but what was planned and approved."""
    if is_protected(engine, cluster):
        raise ProblemError("approval_required", f"cluster {cluster!r} is protected")


async def guarded(engine: EnginePort, store: AuditStore, cluster: str, step: Advance) -> Advance:
    """What becomes of an operation that has made its own plan just now. Raises NotActive, UnknownCluster,
    AuditUnavailable; then it is looked at again."""
    execution = step.work.execution
    if execution is None or execution.moves_total == 0:
        return step
    stored = await find_plan(store, cluster, execution.plan_id)
    assert stored is not None
    verdicts = await verdicts_on(engine, store, cluster, stored.plan)
    detail = breaches(verdicts)
    if detail is not None:
        refused = fail(step.work, "policy_violated", detail)
        return msgspec.structs.replace(refused, changed=step.changed)
    if needs_approval(engine, stored.row):
        return msgspec.structs.replace(step, state=OperationState.AWAITING_APPROVAL)
    return step
