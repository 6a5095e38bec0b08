"""A preview of adding brokers: which checks are open, and which data would be moved to the new brokers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from admin_api.brokers.models import BrokerPlan, CheckView
from admin_api.plans.views import plan_view
from admin_api.services import Services
from controller.contract.endpoints import endpoint_of
from controller.core.image import ClusterImage
from controller.core.planning.goals import Goal
from controller.core.planning.plan import Plan
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import BrokerSnapshot, Snapshot
from controller.core.preflight import Check, CheckState
from controller.operations.brokers import goals_of
from controller.operations.model import BrokerAdd
from controller.operations.shell.plans import snapshot_of


async def preview_add(services: Services, cluster: str, spec: BrokerAdd) -> BrokerPlan:
    """Return the plan as if the brokers had been added already. Raises NotActive, UnknownCluster."""
    engine = services.engine
    image = engine.image(cluster).image
    checks = engine.preflight(cluster, [broker.broker_id for broker in spec.brokers])
    goals = goals_of(spec)
    snapshot = _with_new(snapshot_of(engine, cluster), spec)
    plans = await services.database.compute(partial(_plan_all, snapshot, goals)) if goals else []
    return BrokerPlan(
        brokers=[broker.broker_id for broker in spec.brokers],
        moves=sum(plan.totals.moves for plan in plans),
        bytes=sum(plan.totals.bytes for plan in plans),
        warnings=_warnings(spec, image, checks),
        checks=[
            CheckView(**(msgspec.structs.asdict(check) | {"state": check.state.value})) for check in checks
        ],
        plans=[plan_view(cluster, plan) for plan in plans],
    )


def _plan_all(snapshot: Snapshot, goals: tuple[Goal, ...]) -> list[Plan]:
    return [make_plan(snapshot, goal) for goal in goals]


def _with_new(snapshot: Snapshot, spec: BrokerAdd) -> Snapshot:
    """Return the snapshot in which the added brokers take replicas and the replaced brokers take none."""
    replaced = {broker.replaces for broker in spec.brokers}
    brokers = {
        found.broker_id: msgspec.structs.replace(found, receives=False, leaving=True)
        if found.broker_id in replaced
        else found
        for found in snapshot.brokers
    }
    for wanted in spec.brokers:
        if wanted.broker_id not in brokers:
            brokers[wanted.broker_id] = BrokerSnapshot(
                broker_id=wanted.broker_id, host=wanted.host, rack=wanted.rack
            )
    return msgspec.structs.replace(snapshot, brokers=tuple(brokers[b] for b in sorted(brokers)))


def _warnings(spec: BrokerAdd, image: ClusterImage, checks: Sequence[Check]) -> list[str]:
    missing = [
        f"broker {broker.broker_id} has not registered yet: "
        f"start it at {endpoint_of(broker.host, broker.port)}"
        for broker in spec.brokers
        if broker.broker_id not in image.brokers
    ]
    return missing + [check.detail for check in checks if check.state is not CheckState.PASSED]
