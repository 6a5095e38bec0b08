"""Makes plans from the cluster as it is now, and stores them: the part that operations need, too.

The rows are copied at once, without waiting; thinking happens where blocking work runs, so that heartbeats
and elections go on meanwhile. A plan is named after the request or operation that asked for it, so that a
second attempt of the same request, or the next controller going on with an operation, finds the first one's
plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from controller.core.planning.goals import Goal
from controller.core.planning.plan import Plan
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import Measured, Moment, Snapshot, take_snapshot
from controller.database import plan_rows
from controller.database.plan_rows import MOVES_PER_WRITE
from controller.database.rows import MoveRow, PlanRow
from controller.database.sql import Database
from controller.policies.sandbox import Verdict
from controller.shell.engine import Engine

#: How long a plan may be executed: long enough for the night's quiet hours, or for a second person to agree.
PLAN_EXPIRES_MS: Final = 24 * 3600 * 1000
#: How long a plan that expired can still be looked at.
PLAN_KEPT_MS: Final = 7 * 24 * 3600 * 1000
_FORGOTTEN_AT_ONCE: Final = 10


class PlanOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a plan, and who asked for it and why."""

    plan_id: str
    actor: str
    reason: str | None
    request_id: str | None


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and its row; `row.id` is what an execution names."""

    row: PlanRow
    plan: Plan


def plan_id_of(seed: str, *, turn: int = 0) -> str:
    """Return the plan's id for an operation's id or an attempt's seed. turn: counts the plans that one
    operation makes."""
    name = f"plan_{seed.removeprefix('op_')}"
    return name if turn == 0 else f"{name}_{turn}"


async def snapshot_of(engine: Engine, store: Database, cluster: str) -> Snapshot:
    """Return a snapshot of what has been decided, with the sizes and rates that leaders and the disks that
    brokers reported. Raise NotActive, UnknownCluster."""
    view = engine.cluster(cluster)
    image, lags = view.decided, view.lags()
    disks = {broker: disk for broker in image.brokers if (disk := view.disk(broker)) is not None}
    moment, rates, now_ms = Moment.of(image), view.rates(), engine.clock.now_mono_ms()

    def take() -> Snapshot:
        snapshot = take_snapshot(moment, lags, disks)
        return msgspec.structs.replace(snapshot, rates=rates.rates(lags, now_ms))

    return await store.compute(take)


async def make(
    engine: Engine,
    store: Database,
    cluster: str,
    goal: Goal,
    *,
    measured: Measured | None = None,
    destinations: tuple[int, ...] | None = None,
) -> Plan:
    """Make a plan and do not store it. An outcome other than READY is no error here. measured: by the client.
    destinations: as in Snapshot. Raise NotActive, UnknownCluster."""
    snapshot = await snapshot_of(engine, store, cluster)
    snapshot = msgspec.structs.replace(snapshot, destinations=destinations)
    if measured is not None:
        snapshot = measured.seen_in(snapshot)
    return await store.compute(partial(make_plan, snapshot, goal))


async def keep_plan(
    engine: Engine,
    store: Database,
    cluster: str,
    goal: Goal,
    origin: PlanOrigin,
    *,
    now_ms: int,
    expires_ms: int = PLAN_EXPIRES_MS,
) -> StoredPlan:
    """Make and store a plan, once per id, pinned to the partition epochs it was made from. Raise NotActive,
    UnknownCluster, DatabaseUnavailable."""
    there = await find_plan(store, cluster, origin.plan_id)
    if there is not None:
        return there
    plan = await make(engine, store, cluster, goal)
    return await store_plan(engine, store, cluster, plan, origin, now_ms=now_ms, expires_ms=expires_ms)


async def store_plan(
    engine: Engine,
    store: Database,
    cluster: str,
    plan: Plan,
    origin: PlanOrigin,
    *,
    now_ms: int,
    expires_ms: int = PLAN_EXPIRES_MS,
    verdicts: Sequence[Verdict] | None = None,
) -> StoredPlan:
    """Store a plan that was made otherwise. verdicts: of the policies, if they were asked."""
    row = await store.compute(
        partial(
            plan_rows.plan_row,
            plan,
            plan_id=origin.plan_id,
            cluster=cluster,
            actor=origin.actor,
            reason=origin.reason,
            request_id=origin.request_id,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + expires_ms,
        )
    )
    if verdicts is not None:
        row = msgspec.structs.replace(row, policies=[msgspec.to_builtins(one) for one in verdicts])
    expiry_ms = engine.clock.expiry_ms()
    if expiry_ms is not None:
        before_ms = expiry_ms - PLAN_KEPT_MS
        await store.write(plan_rows.forget_expired, before_ms=before_ms, limit=_FORGOTTEN_AT_ONCE)
    if await store.write(plan_rows.begin_plan, row=row):
        for start in range(0, len(plan.moves), MOVES_PER_WRITE):
            page = [
                MoveRow(position=start + place, move=move)
                for place, move in enumerate(plan.moves[start : start + MOVES_PER_WRITE])
            ]
            await store.write(plan_rows.insert_moves, plan_id=row.id, moves=page)
        await store.write(plan_rows.complete_plan, plan_id=row.id)
    stored = await find_plan(store, cluster, row.id)
    assert stored is not None
    return stored


async def find_plan(store: Database, cluster: str, plan_id: str) -> StoredPlan | None:
    row = await store.read(plan_rows.get_plan, cluster=cluster, plan_id=plan_id)
    if row is None:
        return None
    moves = await store.read(plan_rows.get_moves, plan_id=row.id)
    return StoredPlan(row=row, plan=plan_rows.decode_plan(row, moves))
