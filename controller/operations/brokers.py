"""The progress of operations on brokers: adding some, emptying one. Pure.

    add:    preflight --all pass--> register --active--> plan --> move --> elect
    drain:  mark --> plan --> move --> elect, again until it holds nothing

Brokers are admitted all or none, and nothing is moved onto one before it is active. A deadline ends only the
wait for brokers that don't come; moves wait for as long as they have to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from controller.core.image import ClusterImage
from controller.core.planning.goals import Drain, Goal, Rebalance, RebalanceMode, Replace
from controller.core.preflight import CheckState, PreflightCheck
from controller.core.records import BrokerRegistration, CoordinatorRegistration
from controller.core.workers import ids_of, workers_named, workers_of
from controller.operations.campaign import Look, advance_campaign
from controller.operations.model import (
    Blocked,
    BrokerAdd,
    BrokerDrain,
    BrokerToAdd,
    OperationError,
    OperationState,
    StepState,
    Work,
    begun,
    with_steps,
)
from controller.operations.outcome import Advance, DrainMark, cancelled, fail, succeed, wait
from springtide.contract.session import BrokerStatus, ListenerAddress

#: Plans made for one goal of an addition before it is given up: about six minutes' worth.
PLANS_PER_GOAL_MAX: Final = 10
_MOVE_STEPS: Final = ("plan", "move", "elect")


def begin_broker_add(spec: BrokerAdd) -> Work:
    """Return the work at its beginning, with the steps that will be skipped already marked."""
    work = begun(spec, "register", *_MOVE_STEPS, preflight=StepState.RUNNING)
    is_moving = spec.mode != "none" or any(broker.replaces is not None for broker in spec.brokers)
    return work if is_moving else _without_moves(work)


def begin_broker_drain(spec: BrokerDrain) -> Work:
    return begun(spec, "mark", *_MOVE_STEPS)


def goals_of(spec: BrokerAdd, image: ClusterImage) -> tuple[Goal, ...]:
    """Return the goals: first each replacement, then balance for the brokers that replace no other. Of two
    brokers with workers the new one's take the places of the old one's in turn."""
    goals: list[Goal] = []
    for broker in spec.brokers:
        if broker.replaces is not None:
            new = ids_of(image, broker.broker_id)
            goals += [
                Replace(broker_id=old, replacement=new[turn % len(new)])
                for turn, old in enumerate(ids_of(image, broker.replaces))
            ]
    others = tuple(
        worker
        for broker in spec.brokers
        if broker.replaces is None
        for worker in ids_of(image, broker.broker_id)
    )
    if others and spec.mode == "new_only":
        mode = RebalanceMode.NEW_ONLY
        goals.append(Rebalance(mode=mode, new_broker_ids=others, disk_permille=spec.disk_permille))
    elif spec.mode == "full":
        goals.append(Rebalance(mode=RebalanceMode.FULL, disk_permille=spec.disk_permille))
    return tuple(goals)


def endpoint_of(broker: BrokerToAdd | BrokerRegistration | CoordinatorRegistration | ListenerAddress) -> str:
    """Return `host:port`, as brokers and coordinators advertise it and operators write it."""
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return f"{host}:{broker.port}"


def mismatch(wanted: BrokerToAdd, found: BrokerRegistration) -> OperationError | None:
    """Return an error if the broker that registered is not the one that the operator meant."""
    if (wanted.host.lower(), wanted.port) != (found.host.lower(), found.port):
        return OperationError(
            code="endpoint_mismatch",
            detail=(
                f"broker {wanted.broker_id} registered at {endpoint_of(found)}, not at {endpoint_of(wanted)}"
            ),
        )
    if wanted.rack is not None and wanted.rack != found.rack:
        return OperationError(
            code="rack_mismatch",
            detail=f"broker {wanted.broker_id} registered in rack {found.rack!r}, not {wanted.rack!r}",
        )
    return None


def advance_broker_add(
    work: Work, spec: BrokerAdd, look: Look, *, checks: Sequence[PreflightCheck], late: bool
) -> Advance:
    """Return the next step of an addition of brokers. checks: of those that wait. late: the deadline for
    getting them admitted and active has passed."""
    if _state_of(work, "register") is not StepState.SUCCEEDED:
        if look.state is OperationState.CANCELLING:
            return cancelled(work, "no data had been moved; what was admitted stays so")
        step = _admitting(work, spec, look, checks=checks, late=late)
        if step is not None:
            return step
        done = with_steps(work, preflight=StepState.SUCCEEDED, register=StepState.SUCCEEDED)
        work = msgspec.structs.replace(done, blocked=())
    ids = ", ".join(str(wanted.broker_id) for wanted in spec.brokers)
    if _state_of(work, "plan") is StepState.SKIPPED and work.execution is None:
        return succeed(work, f"brokers {ids} are active; no data was moved")
    replaced = tuple(wanted.replaces for wanted in spec.brokers if wanted.replaces is not None)
    unmarked = _with_mark(look.image, replaced, draining=look.state is OperationState.CANCELLING)
    if unmarked:
        # While it is on its way out it gets no new replicas; cancelled, it takes some again.
        draining = look.state is not OperationState.CANCELLING
        state = OperationState.RUNNING if look.state is OperationState.PREFLIGHT else look.state
        return Advance(state=state, work=work, mark=DrainMark(broker_ids=unmarked, draining=draining))
    step = advance_campaign(work, look, goals_of(spec, look.image), spec.moves, tries_max=PLANS_PER_GOAL_MAX)
    if step.state is not OperationState.SUCCEEDED:
        return step
    told = f"brokers {ids} are active; {step.work.summary}"
    for wanted in spec.brokers:
        if wanted.replaces is not None:
            told += f"; broker {wanted.replaces} holds nothing any more: stop it, then delete it"
    return msgspec.structs.replace(step, work=msgspec.structs.replace(step.work, summary=told))


def advance_broker_drain(work: Work, spec: BrokerDrain, look: Look) -> Advance:
    """Empty the broker, without giving up: what can't leave now leaves when its obstacle is gone."""
    broker = next(iter(workers_of(look.image, spec.broker_id)), None)
    if broker is None:
        return succeed(work, f"broker {spec.broker_id} holds nothing and was forgotten")
    state = look.state
    if state is OperationState.CANCELLING and broker.draining:
        mark = DrainMark(broker_ids=(spec.broker_id,), draining=False)
        return Advance(state=state, work=work, mark=mark)
    if state is not OperationState.CANCELLING and not broker.draining:
        if _state_of(work, "mark") is StepState.PENDING:
            mark = DrainMark(broker_ids=(spec.broker_id,), draining=True)
            return Advance(state=state, work=work, mark=mark)
        # The mark was taken back: what is on its way goes back as well.
        state = OperationState.CANCELLING
    if broker.draining:
        work = with_steps(work, mark=StepState.SUCCEEDED)
    look = msgspec.structs.replace(look, state=state)
    goal = Drain(broker_ids=ids_of(look.image, spec.broker_id))
    step = advance_campaign(work, look, (goal,), spec.moves)
    if step.state is not OperationState.SUCCEEDED:
        return step
    told = (
        f"broker {spec.broker_id} holds nothing any more ({step.work.summary}): "
        "stop it, then delete it, or take it back"
    )
    return msgspec.structs.replace(step, work=msgspec.structs.replace(step.work, summary=told))


def _admitting(
    work: Work, spec: BrokerAdd, look: Look, *, checks: Sequence[PreflightCheck], late: bool
) -> Advance | None:
    """Return what to do until all brokers are active; None once they are."""
    brokers = look.image.brokers
    state = look.state
    for wanted in spec.brokers:
        found = brokers.get(wanted.broker_id)
        wrong = None if found is None else mismatch(wanted, found)
        if wrong is not None and state is OperationState.PREFLIGHT:
            return fail(work, wrong.code, wrong.detail)
    missing = [
        Blocked(
            code="broker_unreachable",
            broker_id=wanted.broker_id,
            detail=(
                f"broker {wanted.broker_id} has not registered yet: start `dataplane serve` "
                f"at {endpoint_of(wanted)}"
            ),
        )
        for wanted in spec.brokers
        if wanted.broker_id not in brokers
    ]
    if missing:
        return wait(work, state, missing, late=late)
    workers = workers_named(look.image, [wanted.broker_id for wanted in spec.brokers]).values()
    waiting = tuple(dict.fromkeys(worker.owner_id for worker in workers if not worker.admitted))
    unmet = [
        Blocked(code=check.code, broker_id=check.broker_id, detail=check.detail)
        for check in checks
        if check.state is not CheckState.PASSED
    ]
    if waiting and unmet:
        return wait(work, state, unmet, late=late)
    work = with_steps(work, preflight=StepState.SUCCEEDED, register=StepState.RUNNING)
    if waiting:
        if late:
            return fail(work, "deadline_exceeded", "the brokers registered too late")
        return Advance(
            state=OperationState.RUNNING, work=msgspec.structs.replace(work, blocked=()), admit=waiting
        )
    idle = [
        Blocked(
            code="broker_not_active",
            broker_id=worker.broker_id,
            detail=f"{worker.name} is admitted and {worker.status}",
        )
        for worker in workers
        if worker.status is not BrokerStatus.ACTIVE
    ]
    return wait(work, OperationState.RUNNING, idle, late=late) if idle else None


def _with_mark(image: ClusterImage, broker_ids: Sequence[int], *, draining: bool) -> tuple[int, ...]:
    """Return those of the brokers that exist and are draining, or are not draining."""
    found = (image.brokers.get(broker_id) for broker_id in broker_ids)
    return tuple(b.broker_id for b in found if b is not None and b.draining is draining)


def _without_moves(work: Work) -> Work:
    return with_steps(work, **dict.fromkeys(_MOVE_STEPS, StepState.SKIPPED))


def _state_of(work: Work, name: str) -> StepState:
    return next(step.state for step in work.steps if step.name == name)
