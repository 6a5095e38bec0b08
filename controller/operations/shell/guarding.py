"""What stands between a plan and its first move: the cluster's policies, and on a protected cluster a second
person's approval."""

from __future__ import annotations

import msgspec

from controller.core.configs import is_cluster_protected
from controller.database.rows import PlanRow
from controller.database.sql import Database
from controller.operations.model import OperationState
from controller.operations.outcome import Advance, fail
from controller.operations.shell.plans import find_plan
from controller.policies.judging import breaches, verdicts_on
from controller.shell.engine_port import EnginePort
from controller.shell.outcomes import UnknownCluster


def is_protected(engine: EnginePort, cluster: str) -> bool:
    """Return whether the cluster is protected, as decided, persisted or not. An absent cluster protects
    nothing. Raises NotActive."""
    try:
        return is_cluster_protected(engine.decided(cluster).configs)
    except UnknownCluster:
        return False


def needs_approval(engine: EnginePort, row: PlanRow) -> bool:
    """Raises NotActive."""
    return row.approval is None and is_protected(engine, row.cluster)


async def guarded(engine: EnginePort, store: Database, cluster: str, step: Advance) -> Advance:
    """Return what becomes of an operation that has just made its own plan. Raises NotActive, UnknownCluster,
    DatabaseUnavailable; then the operation is looked at again."""
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
