"""How an addition of partitions goes on: it ends when no replica of the topic is still to be made. Pure."""

from __future__ import annotations

from controller.core.image import ClusterImage
from controller.operations.model import (
    Blocked,
    OperationState,
    PartitionsAdd,
    Step,
    StepState,
    Work,
)
from controller.operations.outcome import Advance, fail, succeed, wait


def begin_partitions_add(spec: PartitionsAdd) -> Work:
    steps = (
        Step(name="write", state=StepState.SUCCEEDED),
        Step(name="create_replicas", state=StepState.RUNNING),
    )
    return Work(spec=spec, steps=steps)


def advance_partitions_add(work: Work, spec: PartitionsAdd, image: ClusterImage) -> Advance:
    """Advance the addition of partitions, without a deadline: a broker that is down creates its replicas when
    it is back."""
    topic = image.topics.get(spec.topic_id)
    if topic is None or topic.deleting:
        return fail(work, "topic_deleted", f"topic {spec.topic!r} was deleted")
    states = image.partitions_of(spec.topic_id)
    missing = [(state, broker_id) for state in states for broker_id in state.new_replicas]
    if not missing:
        return succeed(work, f"topic {spec.topic} has {spec.partitions} partitions, all with their replicas")
    blocked = [
        Blocked(
            code="replica_unreachable",
            broker_id=broker_id,
            topic=spec.topic,
            partition=state.partition,
            detail=f"broker {broker_id} is not active; it creates its replica when it is back",
        )
        for state, broker_id in missing
        if not image.is_eligible(broker_id)
    ]
    return wait(work, OperationState.RUNNING, blocked)
