"""The progress of operations that are written at once and then wait for brokers, without a deadline. Pure.

The deletion of a topic, an addition of partitions, the demotion of a broker.
"""

from __future__ import annotations

import msgspec

from controller.core.image import ClusterImage
from controller.core.workers import workers_of
from controller.operations.model import (
    BLOCKED_SHOWN,
    Blocked,
    BrokerDemote,
    BrokerReturn,
    OperationState,
    PartitionsAdd,
    StepState,
    TopicDelete,
    Work,
    begun,
)
from controller.operations.outcome import Advance, cancelled, fail, succeed, wait


def begin_topic_delete(spec: TopicDelete) -> Work:
    return begun(spec, mark=StepState.SUCCEEDED, delete_replicas=StepState.RUNNING)


def advance_topic_delete(work: Work, spec: TopicDelete, image: ClusterImage) -> Advance:
    """End when the topic is gone: a broker that is down deletes its replica when it is back. The end of one
    whose records are kept is that its leaders have stopped."""
    topic = image.topics.get(spec.topic_id)
    if topic is None:
        return succeed(work, f"every replica of {spec.topic} confirmed its deletion")
    if not topic.deleting or (topic.kept and topic.name_is_free):
        return succeed(work, f"{spec.topic} was deleted, and is kept: `springtide topics deleted` lists it")
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


def begin_partitions_add(spec: PartitionsAdd) -> Work:
    return begun(spec, write=StepState.SUCCEEDED, create_replicas=StepState.RUNNING)


def advance_partitions_add(work: Work, spec: PartitionsAdd, image: ClusterImage) -> Advance:
    """End when no replica of the topic is still to be made: a broker that is down makes its own when it is
    back."""
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


def begin_demotion(spec: BrokerDemote) -> Work:
    return begun(spec, mark=StepState.SUCCEEDED, hand_over=StepState.RUNNING)


def finished_return(spec: BrokerReturn, *, summary: str) -> Work:
    return msgspec.structs.replace(begun(spec, unmark=StepState.SUCCEEDED), summary=summary)


def advance_demotion(work: Work, spec: BrokerDemote, image: ClusterImage) -> Advance:
    """End when the broker leads nothing. The controller hands over what it can at once and goes on trying;
    what the broker leads alone waits for a second replica in sync."""
    workers = workers_of(image, spec.broker_id)
    if not workers:
        return fail(work, "broker_removed", f"broker {spec.broker_id} is not registered any more")
    if not workers[0].demoted:
        return cancelled(work, f"broker {spec.broker_id} was taken back")
    led = [key for worker in workers for key in image.leader_of.get(worker.broker_id, ())]
    if not led:
        return succeed(work, f"broker {spec.broker_id} leads nothing")
    states = [image.partitions[key] for key in sorted(led)[:BLOCKED_SHOWN]]
    blocked = [
        Blocked(
            code="no_other_leader",
            topic=state.topic,
            partition=state.partition,
            detail=f"{state.topic}-{state.partition}: no other replica in sync may lead",
        )
        for state in states
    ]
    return wait(work, OperationState.RUNNING, blocked)
