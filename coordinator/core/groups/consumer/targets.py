"""A new target assignment: when one is due, by which assignor, and what it changes.

Targets follow one another at least `group.consumer.assignment.interval.ms` apart: while many members join at
once, they are assigned together. Kafka waits for the next heartbeat then; here a timer makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coordinator.core.consumer_group_records import encode_consumer_key, encode_consumer_value
from coordinator.core.groups.consumer.assigning import Assignor, Subscriber
from coordinator.core.groups.consumer.draft import Draft
from coordinator.core.groups.consumer.following import follow, note_target
from coordinator.core.groups.consumer.groups import ConsumerChanged, NextTarget
from coordinator.core.groups.consumer.ranges import share_ranges
from coordinator.core.groups.consumer.state import Member
from coordinator.core.groups.consumer.uniform import uniform
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.machine import ShardRecord

ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": share_ranges}


def preferred_assignor(members: Mapping[str, Member], configured: Sequence[str]) -> str:
    """Return the assignor that most members ask for, the first of the alphabet at a draw, or else the first
    that is configured."""
    asked = Counter(name for one in members.values() if (name := one.about.assignor) and name in configured)
    return min(asked, key=lambda name: (-asked[name], name), default=configured[0])


def assign_if_due(registry: Registry, turn: Turn, draft: Draft) -> None:
    """Make a new target if what has to be assigned has changed, or let a timer make it where the last one was
    just made. A group without members has an empty one at once (KAFKA-20442)."""
    if draft.target.epoch >= draft.epoch:
        return
    live = registry.consumers.live_group(draft.group.group_id)
    members = draft.members()
    wait_ms = 0
    if live.targeted_ms is not None and members:
        interval_ms = registry.settings_of(draft.group.group_id).assignment_interval_ms
        wait_ms = live.targeted_ms + interval_ms - turn.now_ms
    timer = NextTarget(draft.group.group_id)
    if wait_ms > 0:
        turn.timers[timer] = turn.now_ms + wait_ms
        return
    turn.timers[timer] = None
    live.targeted_ms = turn.now_ms if members else None
    _assign(registry, turn, draft, members)


def _assign(registry: Registry, turn: Turn, draft: Draft, members: dict[str, Member]) -> None:
    consumers = registry.consumers
    name = preferred_assignor(members, registry.options.assignors)
    target = ASSIGNORS[name](
        [
            Subscriber(
                member_id,
                member.about.instance_id,
                consumers.existing(draft.group.topics_of(member.about)),
                member.target,
            )
            for member_id, member in members.items()
        ]
    )
    for member_id, partitions in target.items():
        if members[member_id].target != partitions:
            draft.changed[member_id] = members[member_id]._replace(target=partitions)
    draft.retarget(turn.wall_ms)
    note_target(registry, turn, draft, name)


def write(registry: Registry, turn: Turn, draft: Draft, member_id: str = "") -> None:
    """Write what the draft changes. member_id: who is answered with it."""
    for key, value in draft.records():
        raw = None if value is None else encode_consumer_value(value)
        turn.records.append(ShardRecord(encode_consumer_key(key), raw))
    if turn.records:
        turn.work = ConsumerChanged(draft.group.group_id, member_id)
        follow(registry, turn, draft)


def on_next_target(registry: Registry, turn: Turn, group_id: str) -> None:
    group = registry.consumers.store.latest(group_id)
    if registry.consumers.topics is None:
        turn.timers[NextTarget(group_id)] = (
            turn.now_ms + registry.settings_of(group_id).assignment_interval_ms
        )
    elif group is not None:
        draft = Draft(group)
        assign_if_due(registry, turn, draft)
        write(registry, turn, draft)
