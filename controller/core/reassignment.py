"""Operators move replicas. How a state changes is in assignment.py; how it ends without them, in isr.py.

Everything that a reassignment needs lies in the partition's own row, so any controller that takes over goes
on with it, and there is no list of reassignments that could contradict the rows (KAFKA-9672).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.core.assignment import Obstacle, completed, grown, next_epoch, rolled_back
from controller.core.configs import BadValueError, checked_value
from controller.core.draft import Draft
from controller.core.events import (
    AlterReassignments,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentTarget,
    Refusal,
    RefusalCode,
)
from controller.core.image import ClusterImage
from controller.core.minimum import MINIMUM, below_minimum, own_minimum
from controller.core.options import ControllerOptions
from controller.core.records import Cause, PartitionRecord, Record, TopicRecord, partition_key
from controller.core.settings_table import BROKER_SETTINGS
from controller.core.topics import check_epoch, find_partition, operator_change
from controller.core.workers import crowding_fault
from springtide.contract.partition_state import MoveThrottle, PartitionKey, PartitionState
from springtide.contract.throttles import FOLLOWER_RATE

#: A throttle stands in each row of its operation.
OPERATION_CHARS_MAX = 64


def alter_reassignments(
    draft: Draft, event: AlterReassignments, options: ControllerOptions
) -> ReassignmentsAltered:
    """Each target alone, in order. One that asks for what is there already succeeds and writes nothing."""
    image = draft.image
    results = []
    seen: set[PartitionKey] = set()
    for target in event.targets:
        key = (target.topic_id, target.partition)
        before = image.partitions.get(key)
        after = (
            _check_named(image, target, seen)
            or _check_rate(event.throttled_rate)
            or _altered(draft, target, _throttle(event, key), options)
        )
        seen.add(key)
        refusal = after if isinstance(after, Refusal) else None
        if isinstance(after, PartitionState) and before is not None:
            after = next_epoch(before, after)
            if not event.dry_run:
                draft.write_partition(after, operator_change(event, _cause(target, after)))
        results.append(
            PartitionResult(
                topic_id=target.topic_id,
                partition=target.partition,
                state=after if isinstance(after, PartitionState) else before,
                refusal=refusal,
            )
        )
    return ReassignmentsAltered(results=tuple(results), dry_run=event.dry_run)


def _cause(target: ReassignmentTarget, after: PartitionState) -> Cause:
    if target.replicas is None:
        return Cause.REASSIGNMENT_CANCELLED
    return Cause.REASSIGNMENT_STARTED if after.is_reassigning else Cause.REASSIGNMENT_COMPLETED


def _check_named(image: ClusterImage, target: ReassignmentTarget, seen: set[PartitionKey]) -> Refusal | None:
    """Refuse unless the target names a living partition, once, in the state that was looked at."""
    found = find_partition(image, target.topic_id, target.partition)
    if isinstance(found, Refusal):
        return found
    if (target.topic_id, target.partition) in seen:
        return Refusal(
            code=RefusalCode.INVALID_REPLICA_ASSIGNMENT,
            field="partition",
            detail=f"partition {target.partition} of {found.topic!r} is named twice",
        )
    return check_epoch(found, target.partition_epoch)


def _check_rate(rate: int | None) -> Refusal | None:
    try:
        if rate is not None:
            checked_value(BROKER_SETTINGS[FOLLOWER_RATE], str(rate))
    except BadValueError as error:
        return Refusal(
            code=RefusalCode.INVALID_CONFIG,
            field="throttled_rate",
            detail=f"throttled_rate {error}",
            hint="bytes per second; leave it out to copy unthrottled",
        )
    return None


def _throttle(event: AlterReassignments, key: PartitionKey) -> MoveThrottle | None:
    if event.throttled_rate is None:
        return None
    operation = event.operation_id or event.request_id or f"{key[0]}-{key[1]}"
    return MoveThrottle(rate=event.throttled_rate, operation=operation[:OPERATION_CHARS_MAX])


def _altered(
    draft: Draft, target: ReassignmentTarget, throttle: MoveThrottle | None, options: ControllerOptions
) -> PartitionState | Refusal | None:
    """Return the state as asked for, its epochs not settled yet; None if nothing changes."""
    image = draft.image
    before = image.partitions[target.topic_id, target.partition]
    after: PartitionState | Obstacle | None
    if target.replicas is None:
        if not before.is_reassigning:
            return Refusal(
                code=RefusalCode.NO_REASSIGNMENT_IN_PROGRESS,
                field="partition",
                detail=f"no reassignment of {before.topic}-{before.partition} is in progress",
            )
        after = rolled_back(image, before)
    else:
        refusal = _check_replicas(draft, before, target.replicas, options)
        if refusal is not None:
            return refusal
        after = grown(image, before, target.replicas, throttle)
    if isinstance(after, Obstacle):
        return Refusal(
            code=RefusalCode.REASSIGNMENT_NOT_SAFE,
            field="replicas",
            detail=f"{before.topic}-{before.partition}: {after.detail}",
            hint=after.hint,
            limit=before.min_insync_replicas,
        )
    return after


def _check_replicas(
    draft: Draft, before: PartitionState, replicas: tuple[int, ...], options: ControllerOptions
) -> Refusal | None:
    image = draft.image

    def refuse(detail: str, limit: int | None = None) -> Refusal:
        return Refusal(
            code=RefusalCode.INVALID_REPLICA_ASSIGNMENT, field="replicas", detail=detail, limit=limit
        )

    if not replicas:
        return refuse("a partition has at least one replica", 1)
    if len(set(replicas)) != len(replicas):
        return refuse(f"{list(replicas)} names a broker twice")
    minimum = own_minimum(image.topics[before.topic_id])
    most = max(before.replication_factor, len(before.target_replicas))
    too_few = below_minimum(most, len(replicas), minimum)
    if too_few is not None:
        return Refusal(
            code=RefusalCode.INVALID_REPLICATION_FACTOR,
            field="replicas",
            limit=minimum,
            detail=too_few,
            hint=f"lower {MINIMUM} first",
        )
    # While it grows a partition has both; a chunk of rows must fit in a znode.
    both = {*replicas, *(before.original_replicas or before.replicas)}
    if len(both) > options.replication_factor_max:
        return refuse(
            f"{len(both)} brokers would hold a replica while it moves", options.replication_factor_max
        )
    for broker_id in replicas:
        broker = image.brokers.get(broker_id)
        if broker is None or not broker.admitted:
            return Refusal(
                code=RefusalCode.UNKNOWN_BROKER,
                field="replicas",
                detail=image.what_is(broker_id, "is not a member of this cluster"),
            )
        if broker_id not in before.replicas and not broker.takes_replicas:
            how = broker.status.value if not broker.is_eligible else "cordoned"
            return Refusal(
                code=RefusalCode.INELIGIBLE_BROKER,
                field="replicas",
                detail=f"broker {broker_id} is {how}: it can't take a replica now",
            )
        if broker_id not in before.replicas and broker_id in draft.full_disks.short:
            return Refusal(
                code=RefusalCode.INELIGIBLE_BROKER,
                field="replicas",
                detail=f"the disk of broker {broker_id} is below its reserve: it can't take a replica now",
                hint="make room on it, or choose another broker",
            )
    crowded = crowding_fault(image, replicas)
    return None if crowded is None else refuse(crowded)


def follow_up(draft: Draft, records: Sequence[Record]) -> None:
    """Write what follows from the partitions just written. Most reassignments complete with the addition to
    their ISR (isr.py); those that waited only for a replica that may lead complete here. A topic's
    replication factor is that of its first partition: new partitions get as many replicas."""
    image = draft.image
    for record in list(records):
        if isinstance(record, PartitionRecord):
            if partition_key(record.state) in image.reassigning:
                _complete_if_ready(draft, partition_key(record.state))
            if record.state.partition == 0:
                _follow_replication_factor(draft, record.state.topic_id)


def resume(draft: Draft) -> None:
    """A controller that takes over: the rows say all. Only what was ready, and a topic's row that a crash cut
    off from its partition's, is left to write."""
    for key in list(draft.image.reassigning):
        _complete_if_ready(draft, key)
    for topic_id in list(draft.image.topics):
        _follow_replication_factor(draft, topic_id)


def _complete_if_ready(draft: Draft, key: PartitionKey) -> None:
    state = draft.image.partitions[key]
    done = completed(draft.image, state)
    if done is not None:
        draft.write_partition(next_epoch(state, done), draft.change(Cause.REASSIGNMENT_COMPLETED))


def _follow_replication_factor(draft: Draft, topic_id: str) -> None:
    topic = draft.image.topics.get(topic_id)
    first = draft.image.partitions.get((topic_id, 0))
    if topic is None or topic.deleting or first is None or first.is_reassigning:
        return
    if topic.replication_factor != first.replication_factor:
        after = msgspec.structs.replace(topic, replication_factor=first.replication_factor)
        draft.write(TopicRecord(state=after, change=draft.change(Cause.REASSIGNMENT_COMPLETED)))
