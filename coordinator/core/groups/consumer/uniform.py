"""The assignor `uniform`: all partitions spread evenly over the members, and as few as possible moved.

Balance comes before keeping. Where all members subscribe the same topics, their numbers differ by one at
most. Where they do not, a partition moves as long as that makes two members more equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
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
    free = set(partitions)
    kept: dict[str, list[TopicPartition]] = {}
    for member in subscribers:
        mine = [one for one in member.target if one in free]
        has_extra = len(mine) > quota and extras > 0
        extras -= has_extra
        if len(mine) > quota + has_extra:
            mine = sorted(mine)[: quota + has_extra]
        free.difference_update(mine)
        kept[member.member_id] = mine
    rest = (one for one in partitions if one in free)
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
        _spread(topic, by_topic[topic], owners, loads, moves=False)
    has_moved = True
    while has_moved:  # each move makes the sum of the squares of the loads smaller
        has_moved = sum(_spread(topic, by_topic[topic], owners, loads, moves=True) for topic in topics) > 0
    mine: dict[str, set[TopicPartition]] = {member.member_id: set() for member in subscribers}
    for partition, owner in owners.items():
        mine[owner].add(partition)
    return {member_id: frozenset(partitions) for member_id, partitions in mine.items()}


def _spread(
    topic: KnownTopic,
    members: list[str],
    owners: dict[TopicPartition, str],
    loads: dict[str, int],
    *,
    moves: bool,
) -> int:
    """Give free partitions of a topic to its least loaded subscribers; moves: others, too, where that evens
    out. Return how many were given."""
    heap = [(loads[member_id], member_id) for member_id in members]
    heapify(heap)
    given = 0
    for partition in topic.all():
        while heap[0][0] != loads[heap[0][1]]:
            heappop(heap)  # its load has changed since
        least, owner = heap[0][1], owners.get(partition)
        if owner is not None and (not moves or loads[owner] <= loads[least] + 1):
            continue
        owners[partition] = least
        given += 1
        loads[least] += 1
        heappush(heap, (loads[least], least))
        if owner is not None:
            loads[owner] -= 1
            heappush(heap, (loads[owner], owner))
    return given
