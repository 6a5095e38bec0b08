"""Asks a cluster's policies about a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from controller.core.planning.plan import Plan
from controller.database.policy_rows import list_policies
from controller.database.sql import Database
from controller.operations.shell.plans import snapshot_of
from controller.policies.facts import Facts
from controller.policies.sandbox import Verdict, judge
from controller.shell.engine_port import EnginePort


async def verdicts_on(engine: EnginePort, store: Database, cluster: str, plan: Plan) -> tuple[Verdict, ...]:
    """Return the verdict of each policy, by name, over the cluster as it is now. Raise NotActive,
    UnknownCluster, DatabaseUnavailable: a policy that can't be read stops what it guards."""
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
    return "; ".join(say(verdict) for verdict in broken[:5]) + (
        f"; and {len(broken) - 5} more" if len(broken) > 5 else ""
    )


def say(verdict: Verdict) -> str:
    """Return one policy's verdict in words."""
    if verdict.error is not None:
        return f"policy {verdict.name} can't be judged: {verdict.error}"
    first = ", ".join(f"{name} {value}" for name, value in zip(verdict.columns, verdict.rows[0], strict=True))
    more = f" and {verdict.rows_total - 1} more" if verdict.rows_total > 1 else ""
    return f"policy {verdict.name}: {first}{more}"
