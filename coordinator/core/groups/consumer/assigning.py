"""What assignors are given and return.

Partitions are numbers here: those of all topics of a group, one topic after the other. A value for each
(topic id and partition) would cost ten times as much as sharing them out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Struct

from coordinator.core.topic_partitions import PartitionsByTopic


class KnownTopic(NamedTuple):
    name: str
    topic_id: UUID
    partitions: int


class Subscriber(NamedTuple):
    """A member that an assignor gives its part. topics: those that it subscribes, by their places among the
    group's; sorted. held: its part of the assignment before, sorted."""

    member_id: str
    instance_id: str | None
    topics: tuple[int, ...]
    held: list[int]


class AskedMember(Struct, frozen=True):
    """The same with its target as it is stored: what that is in numbers need not be found out in the loop."""

    member_id: str
    instance_id: str | None
    topics: tuple[int, ...]
    target: PartitionsByTopic


class TargetQuestion(Struct, frozen=True):
    """What the target of a group's epoch is to be. topics: that exist and are subscribed. starts: of each the
    number of its first partition, and behind them the number of partitions."""

    group_id: str
    epoch: int
    assignor: str
    topics: list[UUID]
    starts: list[int]
    members: list[AskedMember]

    @property
    def is_equal(self) -> bool:
        """Return whether all members subscribe the same topics."""
        return all(one.topics == self.members[0].topics for one in self.members)


Answer: TypeAlias = list[list[int] | None]
"""Of each member the partitions that it is to have, sorted; None: what it has."""
Parts: TypeAlias = list[list[int]]
"""Of each subscriber the partitions that it is to have, sorted."""
Assignor: TypeAlias = Callable[[Sequence[int], Sequence[Subscriber]], Parts]
"""Gives each partition of the subscribed topics to one member that subscribes it. First argument: starts."""


class Numbering:
    """The numbers of the partitions of some topics, by their order."""

    __slots__ = ("_ranges", "_starts", "_topics")

    def __init__(self, topics: Sequence[UUID], starts: Sequence[int]) -> None:
        self._topics = topics
        self._starts = starts
        #: By the id as a number: the hash of an UUID takes longer than all else here.
        self._ranges = {topic.int: ends for topic, ends in zip(topics, pairwise(starts), strict=True)}

    def numbers(self, partitions: PartitionsByTopic) -> list[int]:
        """Return the numbers of partitions, sorted. Those that do not exist are left out."""
        found: list[int] = []
        for topic_id, own in partitions.items():
            start, end = self._ranges.get(topic_id.int, (0, 0))
            if own[-1] < end - start:
                found += [start + one for one in own]
            else:
                found += [start + one for one in own if one < end - start]
        found.sort()
        return found

    def partitions(self, numbers: Sequence[int]) -> PartitionsByTopic:
        """Return the partitions of sorted numbers."""
        return {
            self._topics[place]: tuple([one - self._starts[place] for one in own])
            for place, own in by_place(self._starts, numbers)
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
