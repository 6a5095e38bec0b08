"""What assignors are given and return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from coordinator.core.consumer_group_records import Partitions, TopicPartition


class KnownTopic(NamedTuple):
    name: str
    topic_id: UUID
    partitions: int

    def all(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic_id, partition) for partition in range(self.partitions)]


class Subscriber(NamedTuple):
    """A member that has to be assigned its part. topics: those that it subscribes and that exist, by name.
    target: its part of the assignment before."""

    member_id: str
    instance_id: str | None
    topics: tuple[KnownTopic, ...]
    target: Partitions


#: Gives each partition of the subscribed topics to one member that subscribes it.
Assignor: TypeAlias = Callable[[Sequence[Subscriber]], dict[str, Partitions]]
