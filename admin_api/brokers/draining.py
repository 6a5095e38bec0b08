"""Draining of brokers: a draining broker gets no new replicas, and an operation moves its replicas away."""

from __future__ import annotations

from admin_api.answers import Answer
from admin_api.brokers.maintenance import maintain
from admin_api.brokers.models import DrainBroker
from admin_api.brokers.service import check_not_busy, find_broker
from admin_api.conditions import Condition
from admin_api.operations.opening import opened
from admin_api.operations.views import accepted
from admin_api.plans.views import plan_view
from admin_api.problem import FieldProblem, ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt
from controller.core.planning.goals import Drain
from controller.core.planning.plan import Plan, RejectionCode
from controller.operations.brokers import begin_broker_drain
from controller.operations.model import BrokerDrain, OperationState, decode_work
from controller.operations.shell.plans import make

#: The most partitions that a refusal names.
NAMED_MAX = 100


async def drain_broker(
    services: Services,
    cluster: str,
    broker_id: int,
    attempt: Attempt,
    *,
    body: DrainBroker,
    condition: Condition,
) -> Answer:
    """Answer 202 with an operation that ends when the broker holds nothing. Refuse if some partition has no
    other place at all. A partition that can't be moved only now is moved later."""
    find_broker(services.engine.image(cluster), cluster, broker_id)
    check_not_busy(services, cluster, broker_id, but=attempt.operation_id)
    plan = await make(
        services.engine,
        services.database,
        cluster,
        Drain(broker_ids=(broker_id, *_about_to_drain(services, cluster))),
    )
    _check_places(plan, broker_id)
    await maintain(services, cluster, broker_id, attempt, condition=condition, draining=True, dry_run=True)
    if attempt.dry_run:
        return Answer.of(200, plan_view(cluster, plan))
    # The operation is written first: a broker must not stay draining without an operation that empties it.
    work = begin_broker_drain(BrokerDrain(broker_id=broker_id, moves=body.options()))
    row = opened(services, cluster, attempt, work, OperationState.RUNNING)
    await services.operations.start(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s)


def _about_to_drain(services: Services, cluster: str) -> list[int]:
    """Return the brokers whose drains are accepted but not yet marked. They will take no replicas."""
    brokers = services.engine.decided(cluster).brokers
    specs = [decode_work(row).spec for row in services.operations.running() if row.cluster == cluster]
    ids = [spec.broker_id for spec in specs if isinstance(spec, BrokerDrain)]
    return [b for b in ids if b in brokers and not brokers[b].draining]


def _check_places(plan: Plan, broker_id: int) -> None:
    homeless = [found for found in plan.rejections if found.code is RejectionCode.NO_RECEIVER]
    if not homeless:
        return
    named = ", ".join(f"{found.topic}-{found.partition}" for found in homeless[:3])
    more = f" and {len(homeless) - 3} more" if len(homeless) > 3 else ""
    raise ProblemError(
        "plan_infeasible",
        f"there is no other place for what broker {broker_id} holds of {named}{more}",
        errors=tuple(
            FieldProblem(parameter="broker_id", message=f"{found.topic}-{found.partition}: {found.detail}")
            for found in homeless[:NAMED_MAX]
        ),
        hint="add a broker, take a cordoned one back, or lower the topics' replication factor first",
        facts={"partitions": len(homeless)},
    )
