"""Decides how an operation goes on, from what the cluster looks like now. Pure.

    advance(work, state, cluster, now) -> Advance(state, work, event to submit)

Called again and again by the active controller; nothing is remembered but what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from controller.core.image import ClusterImage
from controller.core.preflight import PreflightCheck
from controller.database.rows import MoveRow
from controller.operations.brokers import advance_broker_add, advance_broker_drain
from controller.operations.campaign import Look
from controller.operations.execution import Window, advance_execution, after_storing
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
    StepState,
    TopicDelete,
    Work,
    begun,
)
from controller.operations.outcome import Advance
from controller.operations.reassignments import Progress, advance_reassignment
from controller.operations.tally import with_tally
from controller.operations.waiting import advance_demotion, advance_partitions_add, advance_topic_delete


def finished_election(spec: LeaderElection, consequences: str | None = None) -> Work:
    """Return the work of an election that has ended. consequences: of an unclean one, what was known to be
    lost."""
    summary = f"broker {spec.leader} leads {spec.topic}-{spec.partition} in leader epoch {spec.leader_epoch}"
    if consequences is not None:
        summary = f"{summary}; {consequences}"
    return msgspec.structs.replace(begun(spec, elect=StepState.SUCCEEDED), summary=summary)


def advance(
    work: Work,
    state: OperationState,
    image: ClusterImage,
    *,
    now_ms: int,
    deadline_at_ms: int,
    operation_id: str = "",
    progress: Progress | None = None,
    checks: Sequence[PreflightCheck] = (),
    window: Window | None = None,
    unplannable: Blocked | None = None,
) -> Advance:
    """Return the next step of an operation. now_ms, deadline_at_ms: wall clock, because the deadline outlives
    the controller that set it. progress: of running reassignments, for what they wait for. checks: of the
    brokers that are to be added. window: of the plan in `work.execution`, if there is one. unplannable: why
    no plan should be made yet."""
    look = Look(
        state=state,
        image=image,
        window=window,
        progress=progress or {},
        operation_id=operation_id,
        now_ms=now_ms,
        unplannable=unplannable,
    )
    step = _step(work, look, checks=checks, late=now_ms >= deadline_at_ms)
    execution = step.work.execution
    current: tuple[MoveRow, ...] = ()
    if window is not None and execution is not None and window.plan_id == execution.plan_id:
        current = after_storing(window, step.changed, execution.cursor).current
    return msgspec.structs.replace(step, work=with_tally(step.work, current, look.progress))


def _step(work: Work, look: Look, *, checks: Sequence[PreflightCheck], late: bool) -> Advance:
    state, image = look.state, look.image
    match work.spec:
        case BrokerAdd():
            return advance_broker_add(work, work.spec, look, checks=checks, late=late)
        case BrokerDrain():
            return advance_broker_drain(work, work.spec, look)
        case TopicDelete():
            return advance_topic_delete(work, work.spec, image)
        case BrokerDemote():
            return advance_demotion(work, work.spec, image)
        case PartitionsAdd():
            return advance_partitions_add(work, work.spec, image)
        case Reassignment():
            return advance_reassignment(work, work.spec, state, image, look.progress)
        case PlanExecution() | ReplicationFactorChange():
            assert look.window is not None
            return advance_execution(
                work,
                state,
                image,
                look.window,
                look.progress,
                operation_id=look.operation_id,
                now_ms=look.now_ms,
            )
        case LeaderElection() | PreferredElection() | BrokerReturn() | ReassignmentCancel():
            return Advance(state=OperationState.SUCCEEDED, work=work)  # stored when they were done
        case _:
            assert_never(work.spec)
