"""Maintenance of brokers: cordon, demote, return, drain, remove.

A draining broker gets no new replicas, and an operation moves its replicas away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Unpack

import msgspec
from fastapi import Depends

from admin_api.brokers.models import LABELS_MAX, ChangeBroker, DrainBroker, MaintenancePlan
from admin_api.brokers.service import broker_view, check_not_busy, find_broker, version_of
from admin_api.http.answers import Answer
from admin_api.http.conditions import IfMatch
from admin_api.http.models import BrokerPath, ClusterPath
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, ChangeFields, RowChange, Write, follow, opened, submit
from admin_api.operations.models import accepted
from admin_api.plans.models import plan_view
from controller.face.cluster import BrokerRegistration, Entity, ids_of
from controller.face.commands import (
    BrokerDescribed,
    BrokersMaintained,
    DescribeBroker,
    MaintainBrokers,
    RefusalCode,
    RemoveMember,
)
from controller.face.operations import (
    BrokerDemote,
    BrokerDrain,
    BrokerReturn,
    OperationState,
    advance_demotion,
    begin_broker_drain,
    begin_demotion,
    decode_work,
    finished_return,
)
from controller.face.plans import Drain, Plan, RejectionCode, make
from controller.face.settings import is_leader_rebalance_enabled

#: The most partitions that a refusal names.
NAMED_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange(RowChange):
    """A request to change one broker."""

    broker_id: int

    @property
    def broker(self) -> BrokerRegistration:
        """Return the broker. Raises broker_not_found."""
        return find_broker(self.view, self.cluster, self.broker_id)

    async def asked(self, **fields: Unpack[ChangeFields]) -> Asked:
        return Asked(
            cluster=self.cluster,
            entity=Entity.BROKER,
            entity_id=str(self.broker_id),
            brokers=(self.broker_id,),
            **fields,
        )


async def broker_change(
    services: Serving, write: Write, condition: IfMatch, cluster: ClusterPath, broker_id: BrokerPath
) -> BrokerChange:
    return BrokerChange(
        services=services, write=write, condition=condition, cluster=cluster, broker_id=broker_id
    )


Changing = Annotated[BrokerChange, Depends(broker_change)]


async def change_broker(change: BrokerChange, attempt: Attempt, *, body: ChangeBroker) -> Answer:
    """Change the broker's settings and answer 200. Nothing is moved."""
    if body.model_fields_set & {"rack", "labels"}:
        after = await _describe(change, attempt, body)
    else:
        after = (await maintain(change, attempt, cordoned=body.cordoned)).brokers[0]
    if attempt.dry_run:
        return Answer.of(200, broker_view(change.view, after))
    version = version_of(change.view, change.broker.broker_id)
    return Answer.of(200, broker_view(change.view, change.broker), version=version)


async def _describe(change: BrokerChange, attempt: Attempt, body: ChangeBroker) -> BrokerRegistration:
    """Change the broker's rack, labels or cordon. The rack of a broker that waits to be added can be changed
    too: a missing rack may be what blocks it."""
    broker = change.broker
    if body.cordoned is not None and not broker.admitted:
        detail = f"broker {broker.broker_id} waits to be added"
        raise ProblemError("ineligible_broker", detail, hint="add it first")
    if len(broker.labels | body.labels) > LABELS_MAX + sum(v is None for v in body.labels.values()):
        field = FieldProblem(pointer="/labels", message=f"at most {LABELS_MAX}", limit=LABELS_MAX)
        raise ProblemError("invalid_request", "the broker would have too many labels", errors=(field,))
    _check_settled(change, broker)
    event = DescribeBroker(
        **attempt.event,
        broker_id=broker.owner_id,
        rack=body.rack if "rack" in body.model_fields_set else msgspec.UNSET,
        labels={str(name): text for name, text in body.labels.items()},
        cordoned=body.cordoned,
    )
    return (await submit(change.services.engine, change.cluster, event, BrokerDescribed)).broker


async def demote_broker(change: BrokerChange, attempt: Attempt) -> Answer:
    """Answer 202 with an operation that ends when the broker leads nothing."""
    done = await maintain(change, attempt, demoted=True)
    image = change.view.image
    if attempt.dry_run:
        led = sum(len(image.leader_of.get(b, ())) for b in ids_of(image, change.broker_id))
        left = led - done.leaders_moved
        warnings = [f"{left} partitions have no other replica in sync that may lead"] if left else []
        return _plan(change, done, warnings)
    spec = BrokerDemote(broker_id=change.broker_id)
    # Leaderships that could be handed over have been, so most demotions have ended by now.
    step = advance_demotion(begin_demotion(spec), spec, image)
    return await follow(change.services, change.cluster, attempt, step.work, step.state)


async def return_broker(change: BrokerChange, attempt: Attempt) -> Answer:
    """Answer 202 with an operation that has ended. The leader rebalance gives leaderships back to the
    broker."""
    done = await maintain(change, attempt, cordoned=False, draining=False, demoted=False)
    if attempt.dry_run:
        return _plan(change, done, [])
    how = (
        "partitions that prefer it get it back as their leader by themselves"
        if is_leader_rebalance_enabled(change.view.image.configs)
        else f"POST /clusters/{change.cluster}/partitions:elect-preferred gives it its leaderships back"
    )
    summary = f"broker {change.broker_id} takes replicas and leads again; {how}"
    work = finished_return(BrokerReturn(broker_id=change.broker_id), summary=summary)
    return await follow(change.services, change.cluster, attempt, work, OperationState.SUCCEEDED)


async def remove_broker(change: BrokerChange, attempt: Attempt) -> Answer:
    """Remove the broker, or one of its workers above 0, and answer 200 with the broker as it was."""
    image = change.view.image
    found = image.brokers.get(change.broker_id)
    is_worker = found is not None and found.worker_number > 0
    for worker in (change.broker_id,) if is_worker else ids_of(image, change.broker_id):
        await change.services.engine.notice_death(change.cluster, worker)
    broker = find_broker(change.view, change.cluster, found.owner_id if found else change.broker_id)
    _check_settled(change, broker)
    before = broker_view(change.view, broker)
    event = RemoveMember(**attempt.event, member_id=change.broker_id)
    await change.remove(event, RefusalCode.BROKER_IN_USE)
    return Answer.of(200, before)


def _check_settled(change: BrokerChange, broker: BrokerRegistration) -> None:
    decided = change.view.decided.brokers.get(broker.broker_id)
    version = version_of(change.view, broker.broker_id)
    change.check_settled(broker, decided, version=version, what=f"broker {broker.broker_id}")


async def maintain(
    change: BrokerChange,
    attempt: Attempt,
    *,
    cordoned: bool | None = None,
    draining: bool | None = None,
    demoted: bool | None = None,
    dry_run: bool = False,
) -> BrokersMaintained:
    """Change the flags that are not None. Raises broker_not_found, ineligible_broker, precondition_failed."""
    broker = change.broker
    if not broker.admitted:
        raise ProblemError(
            "ineligible_broker",
            f"broker {broker.broker_id} waits to be added: it has nothing yet that could be taken from it",
            hint="add it first",
        )
    _check_settled(change, broker)
    event = MaintainBrokers(
        **attempt.event,
        # A cordon is not an operation: it is complete when it is answered.
        operation_id=None if attempt.dry_run or demoted is None else attempt.operation_id,
        broker_ids=(broker.owner_id,),
        cordoned=cordoned,
        draining=draining,
        demoted=demoted,
    )
    if dry_run:
        event = msgspec.structs.replace(event, dry_run=True)
    return await submit(change.services.engine, change.cluster, event, BrokersMaintained)


def _plan(change: BrokerChange, done: BrokersMaintained, warnings: list[str]) -> Answer:
    broker = broker_view(change.view, done.brokers[0])
    return Answer.of(200, MaintenancePlan(broker=broker, leaders_moved=done.leaders_moved, warnings=warnings))


async def drain_broker(change: BrokerChange, attempt: Attempt, *, body: DrainBroker) -> Answer:
    """Answer 202 with an operation that ends when the broker holds nothing. Refuse if some partition has no
    other place at all. A partition that can't be moved only now is moved later."""
    services, cluster, broker_id = change.services, change.cluster, change.broker.owner_id
    check_not_busy(services, cluster, broker_id, but=attempt.operation_id)
    image = services.engine.cluster(cluster).decided
    leaving = (broker_id, *_about_to_drain(services, cluster))
    goal = Drain(broker_ids=tuple(worker for b in leaving for worker in ids_of(image, b)))
    plan = await make(services.engine, services.database, cluster, goal)
    _check_places(plan, broker_id)
    await maintain(change, attempt, draining=True, dry_run=True)
    if attempt.dry_run:
        return Answer.of(200, plan_view(cluster, plan))
    # The operation is written first: a broker must not stay draining without an operation that empties it.
    work = begin_broker_drain(BrokerDrain(broker_id=broker_id, moves=body.options()))
    row = opened(services, cluster, attempt, work, OperationState.RUNNING)
    await services.operations.start(row)
    return accepted(row)


def _about_to_drain(services: Services, cluster: str) -> list[int]:
    """Return the brokers whose drains are accepted but not yet marked. They will take no replicas."""
    brokers = services.engine.cluster(cluster).decided.brokers
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
