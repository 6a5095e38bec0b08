"""Partitions of topics by id, as `consumer` groups hold them: topic by topic.

A member may have tens of thousands. A value for each (topic id and partition) takes ten times as long to make
and to look up as its number in the numbers of its topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


PartitionsByTopic: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Of each topic its partitions, sorted, and none without."""
StampedPartitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""The same with the epoch at which its member got each (KIP-1251); in any order."""


def by_topic(parts: Iterable[tuple[UUID, Iterable[int]]]) -> PartitionsByTopic:
    """Return partitions by topic, both sorted. A topic may come more than once."""
    found: defaultdict[UUID, set[int]] = defaultdict(set)
    for topic_id, own in parts:
        found[topic_id].update(own)
    return {topic_id: tuple(sorted(own)) for topic_id, own in sorted(found.items()) if own}


def each_partition(partitions: Mapping[UUID, Iterable[int]]) -> Iterator[TopicIdPartition]:
    return (TopicIdPartition(topic_id, one) for topic_id, own in partitions.items() for one in own)


def count(partitions: PartitionsByTopic | StampedPartitions) -> int:
    return sum(map(len, partitions.values()))


def stamp(partitions: Mapping[UUID, Iterable[int]], epoch: int) -> StampedPartitions:
    """Return partitions that a member gets at an epoch."""
    return {topic_id: dict.fromkeys(own, epoch) for topic_id, own in partitions.items()}


def merged(one: StampedPartitions, other: StampedPartitions) -> StampedPartitions:
    """Return those of both, of which no partition is in both."""
    found = {**one, **other}
    found.update({topic_id: {**one[topic_id], **other[topic_id]} for topic_id in one.keys() & other.keys()})
    return found


def without(one: StampedPartitions, *others: Mapping[UUID, Iterable[int]]) -> StampedPartitions:
    """Return those that none of the others has."""
    found: dict[UUID, Mapping[int, int]] = {}
    for topic_id, own in one.items():
        taken: set[int] = set().union(*(other.get(topic_id, ()) for other in others))
        left = own
        if not taken.isdisjoint(own):
            left = {partition: epoch for partition, epoch in own.items() if partition not in taken}
        if left:
            found[topic_id] = left
    return found


def epoch_of(stamped: StampedPartitions, topic_id: UUID, partition: int) -> int | None:
    """Return the epoch at which a member got a partition; None: it has not got it."""
    return stamped.get(topic_id, {}).get(partition)
