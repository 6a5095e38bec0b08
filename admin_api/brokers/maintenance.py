"""Maintenance of brokers: cordon, demote, return, remove."""

from __future__ import annotations

import msgspec

from admin_api.answers import Answer
from admin_api.brokers.models import LABELS_MAX, ChangeBroker, MaintenancePlan
from admin_api.brokers.service import broker_view, find_broker, version_of
from admin_api.conditions import Condition
from admin_api.operations.opening import opened
from admin_api.operations.views import accepted
from admin_api.problem import FieldProblem, ProblemError
from admin_api.services import Services
from admin_api.writes import Attempt, refusal_problem
from controller.core.configs import is_leader_rebalance_enabled
from controller.core.events import (
    BrokerDescribed,
    BrokerRemoved,
    BrokersMaintained,
    DescribeBroker,
    MaintainBrokers,
    Refusal,
    RefusalCode,
    RemoveBroker,
)
from controller.core.records import BrokerRegistration
from controller.operations.maintenance import advance_demotion, begin_demotion, finished_return
from controller.operations.model import BrokerDemote, BrokerReturn, OperationState


async def change_broker(
    services: Services,
    cluster: str,
    broker_id: int,
    attempt: Attempt,
    *,
    body: ChangeBroker,
    condition: Condition,
) -> Answer:
    """Change the broker's settings and answer 200. Nothing is moved."""
    if body.model_fields_set & {"rack", "labels"}:
        after = await _describe(services, cluster, broker_id, attempt, body=body, condition=condition)
    else:
        done = await maintain(
            services, cluster, broker_id, attempt, condition=condition, cordoned=body.cordoned
        )
        after = done.brokers[0]
    view = services.engine.image(cluster)
    if attempt.dry_run:
        return Answer.of(200, broker_view(view, after))
    broker = find_broker(view, cluster, broker_id)
    return Answer.of(200, broker_view(view, broker), version=version_of(view, broker_id))


async def _describe(
    services: Services,
    cluster: str,
    broker_id: int,
    attempt: Attempt,
    *,
    body: ChangeBroker,
    condition: Condition,
) -> BrokerRegistration:
    """Change the broker's rack, labels or cordon. The rack of a broker that waits to be added can be changed
    too: a missing rack may be what blocks it."""
    broker = find_broker(services.engine.image(cluster), cluster, broker_id)
    if body.cordoned is not None and not broker.admitted:
        raise ProblemError("ineligible_broker", f"broker {broker_id} waits to be added", hint="add it first")
    if len(broker.labels | body.labels) > LABELS_MAX + sum(v is None for v in body.labels.values()):
        field = FieldProblem(pointer="/labels", message=f"at most {LABELS_MAX}", limit=LABELS_MAX)
        raise ProblemError("invalid_request", "the broker would have too many labels", errors=(field,))
    _check_settled(services, cluster, broker, condition)
    reply = await services.engine.submit(
        cluster,
        DescribeBroker(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            broker_id=broker_id,
            rack=body.rack if "rack" in body.model_fields_set else msgspec.UNSET,
            labels={str(name): text for name, text in body.labels.items()},
            cordoned=body.cordoned,
        ),
    )
    match reply:
        case BrokerDescribed():
            return reply.broker
        case Refusal() as refusal:
            raise refusal_problem(refusal)
        case _:
            raise AssertionError(f"unexpected answer to DescribeBroker: {reply!r}")


async def demote_broker(
    services: Services, cluster: str, broker_id: int, attempt: Attempt, *, condition: Condition
) -> Answer:
    """Answer 202 with an operation that ends when the broker leads nothing."""
    done = await maintain(services, cluster, broker_id, attempt, condition=condition, demoted=True)
    engine = services.engine
    if attempt.dry_run:
        left = len(engine.image(cluster).image.leader_of.get(broker_id, ())) - done.leaders_moved
        return _plan(
            services,
            cluster,
            done,
            [f"{left} partitions have nobody else in sync who may lead"] if left else [],
        )
    work = begin_demotion(BrokerDemote(broker_id=broker_id))
    # Leaderships that could be handed over have been, so most demotions have ended by now.
    step = advance_demotion(work, BrokerDemote(broker_id=broker_id), engine.image(cluster).image)
    row = opened(services, cluster, attempt, step.work, step.state)
    await services.operations.follow(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s)


async def return_broker(
    services: Services, cluster: str, broker_id: int, attempt: Attempt, *, condition: Condition
) -> Answer:
    """Answer 202 with an operation that has ended. The leader rebalance gives leaderships back to the
    broker."""
    done = await maintain(
        services,
        cluster,
        broker_id,
        attempt,
        condition=condition,
        cordoned=False,
        draining=False,
        demoted=False,
    )
    if attempt.dry_run:
        return _plan(services, cluster, done, [])
    image = services.engine.image(cluster).image
    how = (
        "partitions that prefer it get it back as their leader by themselves"
        if is_leader_rebalance_enabled(image.configs)
        else f"POST /clusters/{cluster}/partitions:elect-preferred gives it its leaderships back"
    )
    summary = f"broker {broker_id} takes replicas and leads again; {how}"
    work = finished_return(BrokerReturn(broker_id=broker_id), summary=summary)
    row = opened(services, cluster, attempt, work, OperationState.SUCCEEDED)
    await services.operations.follow(row)
    return accepted(row, retry_after_s=services.settings.retry_after_s)


async def remove_broker(
    services: Services, cluster: str, broker_id: int, attempt: Attempt, *, condition: Condition
) -> Answer:
    """Remove the broker and answer 200 with the broker as it was."""
    engine = services.engine
    view = engine.image(cluster)
    broker = find_broker(view, cluster, broker_id)
    _check_settled(services, cluster, broker, condition)
    before = broker_view(view, broker)
    reply = await engine.submit(
        cluster,
        RemoveBroker(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            dry_run=attempt.dry_run,
            broker_id=broker_id,
        ),
    )
    match reply:
        case BrokerRemoved():
            return Answer.of(200, before)
        case Refusal(code=RefusalCode.BROKER_IN_USE) as refusal:
            raise ProblemError("broker_in_use", refusal.detail, hint=refusal.hint, facts=refusal.facts)
        case Refusal() as refusal:
            raise refusal_problem(refusal)
        case _:
            raise AssertionError(f"unexpected answer to RemoveBroker: {reply!r}")


def _check_settled(
    services: Services, cluster: str, broker: BrokerRegistration, condition: Condition
) -> None:
    """Raise precondition_failed unless the broker's row is the one that the change was decided on."""
    engine = services.engine
    is_settled = engine.decided(cluster).brokers.get(broker.broker_id) == broker
    version = version_of(engine.image(cluster), broker.broker_id) if is_settled else None
    condition.check(version, what=f"broker {broker.broker_id}")


async def maintain(
    services: Services,
    cluster: str,
    broker_id: int,
    attempt: Attempt,
    *,
    condition: Condition,
    cordoned: bool | None = None,
    draining: bool | None = None,
    demoted: bool | None = None,
    dry_run: bool = False,
) -> BrokersMaintained:
    """Change the flags that are not None. Raises broker_not_found, ineligible_broker, precondition_failed."""
    engine = services.engine
    view = engine.image(cluster)
    broker = find_broker(view, cluster, broker_id)
    if not broker.admitted:
        raise ProblemError(
            "ineligible_broker",
            f"broker {broker_id} waits to be added: it has nothing yet that could be taken from it",
            hint="add it first",
        )
    _check_settled(services, cluster, broker, condition)
    reply = await engine.submit(
        cluster,
        MaintainBrokers(
            wall_ms=attempt.wall_ms,
            actor=attempt.actor,
            reason=attempt.reason,
            request_id=attempt.request_id,
            # A cordon is not an operation: it is complete when it is answered.
            operation_id=None if attempt.dry_run or demoted is None else attempt.operation_id,
            dry_run=attempt.dry_run or dry_run,
            broker_ids=(broker_id,),
            cordoned=cordoned,
            draining=draining,
            demoted=demoted,
        ),
    )
    match reply:
        case BrokersMaintained():
            return reply
        case Refusal() as refusal:
            raise refusal_problem(refusal)
        case _:
            raise AssertionError(f"unexpected answer to MaintainBrokers: {reply!r}")


def _plan(services: Services, cluster: str, done: BrokersMaintained, warnings: list[str]) -> Answer:
    view = services.engine.image(cluster)
    broker: BrokerRegistration = done.brokers[0]
    plan = MaintenancePlan(
        broker=broker_view(view, broker), leaders_moved=done.leaders_moved, warnings=warnings
    )
    return Answer.of(200, plan)
