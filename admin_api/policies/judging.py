"""Asks a cluster's policies about a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from admin_api.plans.keeping import snapshot_of
from admin_api.ports import EnginePort
from admin_api.problem import FieldProblem, ProblemError
from controller.audit.policy_rows import list_policies
from controller.audit.store import AuditStore
from controller.core.planning.plan import Plan
from controller.policies.facts import Facts
from controller.policies.sandbox import Verdict, judge


async def verdicts_on(engine: EnginePort, store: AuditStore, cluster: str, plan: Plan) -> tuple[Verdict, ...]:
    """By name, over the cluster as it is now. Raises NotActive, UnknownCluster, AuditUnavailable: a guardrail
    that can't be read stops what it guards."""
    rows = await store.read(partial(list_policies, cluster=cluster))
    if not rows:
        return ()
    facts = Facts(snapshot=snapshot_of(engine, cluster), plan=plan)
    return await store.compute(partial(judge, [(row.name, row.sql) for row in rows], facts))


def breaches(verdicts: Sequence[Verdict]) -> str | None:
    """In words; None: all are kept."""
    broken = [verdict for verdict in verdicts if not verdict.ok]
    if not broken:
        return None
    return "; ".join(_said(verdict) for verdict in broken[:5]) + (
        f"; and {len(broken) - 5} more" if len(broken) > 5 else ""
    )


def check_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Raises policy_violated."""
    detail = breaches(verdicts)
    if detail is None:
        return
    errors = tuple(
        FieldProblem(pointer=f"/policies/{place}", message=_said(verdict))
        for place, verdict in enumerate(verdicts)
        if not verdict.ok
    )
    raise ProblemError("policy_violated", detail, errors=errors, facts={"policies": len(errors)})


def _said(verdict: Verdict) -> str:
    if verdict.error is not None:
        return f"policy {verdict.name} can't be judged: {verdict.error}"
    first = ", ".join(f"{name} {value}" for name, value in zip(verdict.columns, verdict.rows[0], strict=True))
    more = f" and {verdict.rows_total - 1} more" if verdict.rows_total > 1 else ""
    return f"policy {verdict.name}: {first}{more}"
