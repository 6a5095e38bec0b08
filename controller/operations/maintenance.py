"""How the demotion of a broker goes on: it ends when the broker leads nothing. Pure.

The controller hands over what it can at once and goes on trying, because the broker stays demoted; what it
leads alone waits for a second replica in sync.
"""

from __future__ import annotations

from controller.core.image import ClusterImage
from controller.operations.model import (
    BLOCKED_SHOWN,
    Blocked,
    BrokerDemote,
    BrokerReturn,
    OperationState,
    Step,
    StepState,
    Work,
)
from controller.operations.outcome import Advance, cancelled, fail, succeed, wait


def begin_demotion(spec: BrokerDemote) -> Work:
    steps = (
        Step(name="mark", state=StepState.SUCCEEDED),
        Step(name="hand_over", state=StepState.RUNNING),
    )
    return Work(spec=spec, steps=steps)


def finished_return(spec: BrokerReturn, *, summary: str) -> Work:
    return Work(spec=spec, steps=(Step(name="unmark", state=StepState.SUCCEEDED),), summary=summary)


def advance_demotion(work: Work, spec: BrokerDemote, image: ClusterImage) -> Advance:
    broker = image.brokers.get(spec.broker_id)
    if broker is None:
        return fail(work, "broker_removed", f"broker {spec.broker_id} is not registered any more")
    if not broker.demoted:
        return cancelled(work, f"broker {spec.broker_id} was taken back")
    led = image.leader_of.get(spec.broker_id, {})
    if not led:
        return succeed(work, f"broker {spec.broker_id} leads nothing")
    states = [image.partitions[key] for key in sorted(led)[:BLOCKED_SHOWN]]
    blocked = [
        Blocked(
            code="no_other_leader",
            topic=state.topic,
            partition=state.partition,
            detail=f"{state.topic}-{state.partition}: nobody else who is in sync may lead",
        )
        for state in states
    ]
    return wait(work, OperationState.RUNNING, blocked)
