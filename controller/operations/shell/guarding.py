"""The guards between a plan and its first move: the cluster's policies, and on a protected cluster a second
person's approval."""

from __future__ import annotations

from functools import partial

import msgspec

from controller.core.configs import is_cluster_protected
from controller.core.planning.plan import Plan
from controller.database.policy_rows import list_policies
from controller.database.rows import PlanRow
from controller.database.sql import Database
from controller.operations.model import OperationState
from controller.operations.outcome import Advance, fail
from controller.operations.shell.plans import find_plan, snapshot_of
from controller.policies.facts import Facts
from controller.policies.sandbox import Verdict, breaches, judge
from controller.shell.engine import Engine
from controller.shell.outcomes import UnknownCluster


def is_protected(engine: Engine, cluster: str) -> bool:
    """Return whether the cluster is protected, as decided, persisted or not. An absent cluster protects
    nothing. Raise NotActive."""
    try:
        return is_cluster_protected(engine.cluster(cluster).decided.configs)
    except UnknownCluster:
        return False


def needs_approval(engine: Engine, row: PlanRow) -> bool:
    """Raise NotActive."""
    return row.approval is None and is_protected(engine, row.cluster)


async def verdicts_on(engine: Engine, store: Database, cluster: str, plan: Plan) -> tuple[Verdict, ...]:
    """Return the verdict of each policy, by name, over the cluster as it is now. Raise NotActive,
    UnknownCluster, DatabaseUnavailable: a policy that can't be read stops what it guards."""
    rows = await store.read(list_policies, cluster=cluster)
    if not rows:
        return ()
    facts = Facts(snapshot=await snapshot_of(engine, store, cluster), plan=plan)
    return await store.compute(partial(judge, [(row.name, row.sql) for row in rows], facts))


async def guarded(engine: Engine, store: Database, cluster: str, step: Advance) -> Advance:
    """Return what becomes of an operation that has just made its own plan. Raise NotActive, UnknownCluster,
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
