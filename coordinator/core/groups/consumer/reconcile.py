"""One member's way from what it has towards its target (KIP-848, CurrentAssignmentBuilder).

What has to go goes first: the member keeps its epoch, is asked to give partitions up, and takes nothing
until its heartbeat shows that it has. Then it comes to the target's epoch and gets what is free; for what
others may still consume it asks again with each heartbeat. Each partition bears the epoch at which its member
got it, by which late commits are judged (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from coordinator.core.consumer_group_records import CurrentAssignment
from coordinator.core.groups.consumer.state import MemberState
from coordinator.core.topic_partitions import PartitionsByTopic, StampedPartitions, merged, stamp, without


class Goal(NamedTuple):
    """Where a member has to come to. target: its part of the assignment of target_epoch.

    topic_ids: of the topics that it subscribes. has_changed: they may not be those of its last heartbeat.
    free: those of some partitions that no other member has, or has yet to give up. Members at rest need
    neither: both are calls.
    """

    target_epoch: int
    target: PartitionsByTopic
    topic_ids: Callable[[], frozenset[UUID]]
    has_changed: bool
    free: Callable[[StampedPartitions], StampedPartitions]


def reconcile(current: CurrentAssignment, goal: Goal, owned: PartitionsByTopic | None) -> CurrentAssignment:
    """Return what a member has from now on. owned: what it says that it consumes; None: as it said before,
    so it may be all that it has."""
    match current.state:
        case MemberState.STABLE if current.epoch == goal.target_epoch:
            return _drop_unsubscribed(current, goal, owned)
        case MemberState.UNREVOKED_PARTITIONS if shows(owned, current.revoking):
            return _drop_unsubscribed(current, goal, owned)
        case _:
            return _next(current, goal, owned)


def shows(owned: PartitionsByTopic | None, partitions: Mapping[UUID, Iterable[int]]) -> bool:
    """Return whether a member may still consume one of the partitions."""
    return owned is None or any(
        not set(owned.get(topic_id, ())).isdisjoint(own) for topic_id, own in partitions.items()
    )


def _drop_unsubscribed(
    current: CurrentAssignment, goal: Goal, owned: PartitionsByTopic | None
) -> CurrentAssignment:
    """Let what a member does not subscribe any more go at once, before there is a target that says so
    (KAFKA-19431)."""
    if not goal.has_changed:
        return current
    topic_ids = goal.topic_ids()
    assigned = {topic_id: own for topic_id, own in current.assigned.items() if topic_id in topic_ids}
    dropped = without(current.assigned, assigned)
    if not dropped:
        return current
    revoking = merged(current.revoking, dropped)
    if not shows(owned, revoking):
        return replace(current, assigned=assigned)
    return replace(current, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, revoking=revoking)


def _next(current: CurrentAssignment, goal: Goal, owned: PartitionsByTopic | None) -> CurrentAssignment:
    topic_ids = goal.topic_ids()
    target = {topic_id: own for topic_id, own in goal.target.items() if topic_id in topic_ids}
    revoking = without(current.assigned, target)
    assigned = without(current.assigned, revoking)
    if revoking and shows(owned, revoking):
        return replace(current, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, revoking=revoking)
    wanted = without(stamp(target, goal.target_epoch), assigned)
    free = goal.free(wanted)
    is_newer = current.epoch != goal.target_epoch
    return CurrentAssignment(
        epoch=goal.target_epoch,
        previous_epoch=current.epoch if is_newer else current.previous_epoch,
        state=MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS,
        assigned=merged(assigned, free),
    )
