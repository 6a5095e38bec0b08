"""Decides how an operation goes on, from what the cluster looks like now. Pure.

    advance(work, state, cluster, now) -> Advance(state, work, event to submit)

Called again and again, by whichever controller is active; nothing is remembered but what is stored. An
operation that adds brokers admits all of them or none: until each is waiting at the endpoint that the
operator stated, and has passed every check from both sides, nothing is admitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec

from admin_api.names import endpoint_of
from admin_api.operations.execution import Window, advance_execution
from admin_api.operations.maintenance import advance_demotion
from admin_api.operations.model import (
    Blocked,
    BrokerAdd,
    BrokerDemote,
    BrokerReturn,
    BrokerToAdd,
    LeaderElection,
    OperationError,
    OperationState,
    PartitionsAdd,
    PlanExecution,
    PreferredElection,
    Reassignment,
    ReassignmentCancel,
    Step,
    StepState,
    TopicDelete,
    Work,
    with_steps,
)
from admin_api.operations.outcome import Advance, fail, wait
from admin_api.operations.reassignments import Progress, advance_reassignment
from admin_api.operations.topic_growth import advance_partitions_add
from controller.contract.session import BrokerStatus
from controller.core.image import ClusterImage
from controller.core.preflight import Check, CheckState
from controller.core.records import BrokerRegistration


def begin_broker_add(spec: BrokerAdd) -> Work:
    """The steps of adding brokers. This release moves no data: what is skipped says so from the start."""
    names = ("preflight", "register", "plan", "move", "elect")
    work = Work(spec=spec, steps=tuple(Step(name=name) for name in names))
    return with_steps(
        work,
        preflight=StepState.RUNNING,
        plan=StepState.SKIPPED,
        move=StepState.SKIPPED,
        elect=StepState.SKIPPED,
    )


def begin_topic_delete(spec: TopicDelete) -> Work:
    names = ("mark", "delete_replicas")
    work = Work(spec=spec, steps=tuple(Step(name=name) for name in names))
    return with_steps(work, mark=StepState.SUCCEEDED, delete_replicas=StepState.RUNNING)


def finished_election(spec: LeaderElection, consequences: str | None = None) -> Work:
    """consequences: of an unclean one, what was known to be lost."""
    work = Work(spec=spec, steps=(Step(name="elect"),))
    summary = f"broker {spec.leader} leads {spec.topic}-{spec.partition} in leader epoch {spec.leader_epoch}"
    if consequences is not None:
        summary = f"{summary}; {consequences}"
    return msgspec.structs.replace(with_steps(work, elect=StepState.SUCCEEDED), summary=summary)


def advance(
    work: Work,
    state: OperationState,
    image: ClusterImage,
    *,
    now_ms: int,
    deadline_at_ms: int,
    operation_id: str = "",
    progress: Progress | None = None,
    checks: Sequence[Check] = (),
    window: Window | None = None,
) -> Advance:
    """now_ms, deadline_at_ms: wall clock, because the deadline outlives the controller that set it. progress:
    of running reassignments, for what they wait for. checks: of the brokers that are to be added. window: of
    the plan in `work.execution`, if there is one."""
    match work.spec:
        case BrokerAdd():
            late = now_ms >= deadline_at_ms
            return _advance_broker_add(work, work.spec, state, image.brokers, checks=checks, late=late)
        case TopicDelete():
            return _advance_topic_delete(work, work.spec, image)
        case BrokerDemote():
            return advance_demotion(work, work.spec, image)
        case PartitionsAdd():
            return advance_partitions_add(work, work.spec, image)
        case Reassignment():
            return advance_reassignment(work, work.spec, state, image, progress or {})
        case PlanExecution():
            assert window is not None
            return advance_execution(
                work, state, image, window, progress or {}, operation_id=operation_id, now_ms=now_ms
            )
        case LeaderElection() | PreferredElection() | BrokerReturn() | ReassignmentCancel():
            return Advance(state=OperationState.SUCCEEDED, work=work)  # stored when they were done
        case _:
            assert_never(work.spec)


def mismatch(wanted: BrokerToAdd, found: BrokerRegistration) -> OperationError | None:
    """Whether the broker that registered is the one the operator meant."""
    if (wanted.host.lower(), wanted.port) != (found.host.lower(), found.port):
        return OperationError(
            code="endpoint_mismatch",
            detail=(
                f"broker {wanted.broker_id} registered at {endpoint_of(found.host, found.port)}, "
                f"not at {endpoint_of(wanted.host, wanted.port)}"
            ),
        )
    if wanted.rack is not None and wanted.rack != found.rack:
        return OperationError(
            code="rack_mismatch",
            detail=f"broker {wanted.broker_id} registered in rack {found.rack!r}, not {wanted.rack!r}",
        )
    return None


def _advance_broker_add(
    work: Work,
    spec: BrokerAdd,
    state: OperationState,
    brokers: Mapping[int, BrokerRegistration],
    *,
    checks: Sequence[Check],
    late: bool,
) -> Advance:
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
                f"at {endpoint_of(wanted.host, wanted.port)}"
            ),
        )
        for wanted in spec.brokers
        if wanted.broker_id not in brokers
    ]
    if missing:
        return wait(work, state, missing, late=late)
    waiting = tuple(b.broker_id for b in spec.brokers if not brokers[b.broker_id].admitted)
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
            broker_id=wanted.broker_id,
            detail=f"broker {wanted.broker_id} is admitted and {brokers[wanted.broker_id].status}",
        )
        for wanted in spec.brokers
        if brokers[wanted.broker_id].status is not BrokerStatus.ACTIVE
    ]
    if idle:
        return wait(work, OperationState.RUNNING, idle, late=late)
    ids = ", ".join(str(wanted.broker_id) for wanted in spec.brokers)
    done = msgspec.structs.replace(
        with_steps(work, register=StepState.SUCCEEDED),
        blocked=(),
        summary=f"brokers {ids} are active; no data was moved",
    )
    return Advance(state=OperationState.SUCCEEDED, work=done)


def _advance_topic_delete(work: Work, spec: TopicDelete, image: ClusterImage) -> Advance:
    """Waits for ever: a broker that is down deletes its replica when it is back."""
    if spec.topic_id not in image.topics:
        done = msgspec.structs.replace(
            with_steps(work, delete_replicas=StepState.SUCCEEDED),
            blocked=(),
            summary=f"every replica of {spec.topic} confirmed its deletion",
        )
        return Advance(state=OperationState.SUCCEEDED, work=done)
    deletion = image.deletions.get(spec.topic_id)
    down = [broker for broker in (deletion.brokers if deletion else ()) if not image.is_eligible(broker)]
    blocked = tuple(
        Blocked(
            code="replica_unreachable",
            broker_id=broker,
            topic=spec.topic,
            detail=f"broker {broker} is not active; it confirms when it is back, or when it is removed",
        )
        for broker in down
    )
    return Advance(state=OperationState.RUNNING, work=msgspec.structs.replace(work, blocked=blocked))
