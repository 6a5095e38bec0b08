"""The assignor `uniform`: all partitions spread evenly over the members, and as few as possible moved.

Balance comes before keeping. Where all members subscribe the same topics, their numbers differ by one at
most. Where they do not, a partition moves as long as that makes two members more equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from coordinator.core.consumer_group_records import Partitions, TopicPartition
from coordinator.core.groups.consumer.assigning import KnownTopic, Subscriber


def uniform(subscribers: Sequence[Subscriber]) -> dict[str, Partitions]:
    subscribers = sorted(subscribers)
    is_equal = all(one.topics == subscribers[0].topics for one in subscribers)
    return _equal(subscribers) if is_equal else _unequal(subscribers)


def _equal(subscribers: Sequence[Subscriber]) -> dict[str, Partitions]:
    """Share out: P partitions among M members, P div M each, and one more for P mod M of them. What a member
    has it keeps up to its number; a member with one more keeps that, too (KAFKA-18688)."""
    if not subscribers:
        return {}
    partitions = [one for topic in subscribers[0].topics for one in topic.all()]
    quota, extras = divmod(len(partitions), len(subscribers))
    free = dict.fromkeys(partitions)
    kept: dict[str, list[TopicPartition]] = {}
    for member in subscribers:
        mine = sorted(one for one in member.target if one in free)
        has_extra = len(mine) > quota and extras > 0
        extras -= has_extra
        kept[member.member_id] = mine[: quota + has_extra]
        for one in kept[member.member_id]:
            del free[one]
    rest = iter(free)
    for own in kept.values():
        own.extend(islice(rest, max(0, quota - len(own))))
    for own in kept.values():
        if len(own) == quota:
            own.extend(islice(rest, 1))
    return {member_id: frozenset(mine) for member_id, mine in kept.items()}


def _unequal(subscribers: Sequence[Subscriber]) -> dict[str, Partitions]:
    by_topic: dict[KnownTopic, list[str]] = {}
    for member in subscribers:
        for topic in member.topics:
            by_topic.setdefault(topic, []).append(member.member_id)
    owners = {
        partition: member.member_id
        for member in subscribers
        for topic in member.topics
        for partition in topic.all()
        if partition in member.target
    }
    loads = {member.member_id: 0 for member in subscribers}
    for owner in owners.values():
        loads[owner] += 1
    # A topic with few subscribers leaves the least choice.
    topics = sorted(by_topic, key=lambda topic: (len(by_topic[topic]), topic))
    for topic in topics:
        for partition in topic.all():
            if partition not in owners:
                owners[partition] = least = min(by_topic[topic], key=loads.__getitem__)
                loads[least] += 1
    moved = True
    while moved:  # each move makes the sum of the squares of the loads smaller
        moved = sum(_even_out(topic, by_topic[topic], owners, loads) for topic in topics) > 0
    mine: dict[str, set[TopicPartition]] = {member.member_id: set() for member in subscribers}
    for partition, owner in owners.items():
        mine[owner].add(partition)
    return {member_id: frozenset(partitions) for member_id, partitions in mine.items()}


def _even_out(
    topic: KnownTopic, members: list[str], owners: dict[TopicPartition, str], loads: dict[str, int]
) -> bool:
    """Move partitions of a topic to its least loaded subscribers while that evens out. Return whether one was
    moved."""
    has_moved = False
    for partition in topic.all():
        owner, least = owners[partition], min(members, key=loads.__getitem__)
        if loads[owner] > loads[least] + 1:
            owners[partition] = least
            loads[owner] -= 1
            loads[least] += 1
            has_moved = True
    return has_moved
