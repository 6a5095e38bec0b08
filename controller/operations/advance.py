"""Decides how an operation goes on, from what the cluster looks like now. Pure.

    advance(work, state, cluster, now) -> Advance(state, work, event to submit)

Called again and again, by whichever controller is active; nothing is remembered but what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from controller.core.image import ClusterImage
from controller.core.preflight import Check
from controller.operations.brokers import advance_broker_add, advance_broker_drain
from controller.operations.campaign import Look
from controller.operations.execution import Window, advance_execution
from controller.operations.maintenance import advance_demotion
from controller.operations.model import (
    Blocked,
    BrokerAdd,
    BrokerDemote,
    BrokerDrain,
    BrokerReturn,
    LeaderElection,
    OperationState,
    PartitionsAdd,
    PlanExecution,
    PreferredElection,
    Reassignment,
    ReassignmentCancel,
    ReplicationFactorChange,
    Step,
    StepState,
    TopicDelete,
    Work,
    with_steps,
)
from controller.operations.outcome import Advance
from controller.operations.reassignments import Progress, advance_reassignment
from controller.operations.topic_growth import advance_partitions_add


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
    unplannable: Blocked | None = None,
) -> Advance:
    """now_ms, deadline_at_ms: wall clock, because the deadline outlives the controller that set it. progress:
    of running reassignments, for what they wait for. checks: of the brokers that are to be added. window: of
    the plan in `work.execution`, if there is one. unplannable: why no plan should be made yet."""
    look = Look(
        state=state,
        image=image,
        window=window,
        progress=progress or {},
        operation_id=operation_id,
        now_ms=now_ms,
        unplannable=unplannable,
    )
    match work.spec:
        case BrokerAdd():
            return advance_broker_add(work, work.spec, look, checks=checks, late=now_ms >= deadline_at_ms)
        case BrokerDrain():
            return advance_broker_drain(work, work.spec, look)
        case TopicDelete():
            return _advance_topic_delete(work, work.spec, image)
        case BrokerDemote():
            return advance_demotion(work, work.spec, image)
        case PartitionsAdd():
            return advance_partitions_add(work, work.spec, image)
        case Reassignment():
            return advance_reassignment(work, work.spec, state, image, progress or {})
        case PlanExecution() | ReplicationFactorChange():
            assert window is not None
            return advance_execution(
                work, state, image, window, progress or {}, operation_id=operation_id, now_ms=now_ms
            )
        case LeaderElection() | PreferredElection() | BrokerReturn() | ReassignmentCancel():
            return Advance(state=OperationState.SUCCEEDED, work=work)  # stored when they were done
        case _:
            assert_never(work.spec)


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
