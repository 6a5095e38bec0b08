"""What assignors are given and return.

Partitions are numbers here: those of all topics of a group, one topic after the other. A value for each
(topic id and partition) would cost ten times as much as sharing them out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Struct

from coordinator.core.consumer_group_records import PartitionsByTopic, TopicPartition


class KnownTopic(NamedTuple):
    name: str
    topic_id: UUID
    partitions: int

    def all(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic_id, partition) for partition in range(self.partitions)]


class Subscriber(Struct, frozen=True):
    """A member that has to be assigned its part. topics: those that it subscribes and that exist, by their
    places among the group's; sorted. held: its part of the assignment before, sorted."""

    member_id: str
    instance_id: str | None
    topics: tuple[int, ...]
    held: list[int]


class Question(Struct, frozen=True):
    """What the target of a group's epoch is to be. starts: of each topic the number of its first partition,
    and behind them the number of partitions."""

    group_id: str
    epoch: int
    assignor: str
    starts: list[int]
    subscribers: list[Subscriber]

    @property
    def is_equal(self) -> bool:
        """Return whether all members subscribe the same topics."""
        return all(one.topics == self.subscribers[0].topics for one in self.subscribers)


Answer: TypeAlias = list[list[int]]
"""Of each subscriber the partitions that it is to have, sorted."""
Assignor: TypeAlias = Callable[[Sequence[int], Sequence[Subscriber]], Answer]
"""Gives each partition of the subscribed topics to one member that subscribes it. First argument: starts."""


class Numbering:
    """The numbers of the partitions of some topics, by their order."""

    __slots__ = ("_places", "starts", "topics")

    def __init__(self, topics: Sequence[KnownTopic]) -> None:
        self.topics = topics
        self.starts = [*accumulate((topic.partitions for topic in topics), initial=0)]
        self._places = {topic.topic_id: place for place, topic in enumerate(topics)}

    def numbers(self, partitions: PartitionsByTopic) -> list[int]:
        """Return the numbers of partitions, sorted. Those that do not exist are left out."""
        found: list[int] = []
        for topic_id, own in partitions.items():
            place = self._places.get(topic_id)
            if place is not None:
                start, end = self.starts[place : place + 2]
                found += [start + one for one in own if one < end - start]
        found.sort()
        return found

    def partitions(self, numbers: Sequence[int]) -> PartitionsByTopic:
        """Return the partitions of sorted numbers."""
        return {
            self.topics[place].topic_id: tuple([one - self.starts[place] for one in own])
            for place, own in by_place(self.starts, numbers)
        }


def by_place(starts: Sequence[int], numbers: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
    """Split sorted numbers by their topics' places."""
    found, begin = [], 0
    while begin < len(numbers):
        place = bisect_right(starts, numbers[begin]) - 1
        end = bisect_left(numbers, starts[place + 1], begin)
        found.append((place, numbers[begin:end]))
        begin = end
    return found
