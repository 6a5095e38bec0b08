"""The `consumer` groups of a shard: what is stored, and what lives in the process alone: timers, the topics
that are known, and why a group was assigned last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from coordinator.core.consumer_group_records import Partitions, TopicPartition
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.consumer.causes import Assigned, Cause
from coordinator.core.groups.consumer.store import ConsumerStore
from coordinator.core.groups.subscription import NamedPartition

ASSIGNED_KEPT_MAX = 20
"""Assignments of one group that people can be told of."""


@dataclass(frozen=True, slots=True)
class ConsumerSession:
    """The timer of a member's session."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class Revocation:
    """The timer of a member that has to give partitions up."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """The timer of a member of the classic protocol that has to join again, or to ask for its assignment."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class NextTarget:
    """The timer of a target that is due and came too soon after the one before."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConsumerChanged:
    """The work of a batch with a group's records. member_id: who is answered once it is committed; empty: no
    member is."""

    group_id: str
    member_id: str = ""


class LiveMember:
    """expires_ms: when its session ends. timer_ms: when its timer is due, at or before that; None without.
    revoking_epoch: at which it was asked to give up partitions; None: it was not. told: what it was told last
    that it has; None: nothing, by this coordinator. has_next_step: its timer of that name runs."""

    __slots__ = ("expires_ms", "has_next_step", "revoking_epoch", "timer_ms", "told")

    def __init__(self) -> None:
        self.expires_ms = 0
        self.timer_ms: int | None = None
        self.revoking_epoch: int | None = None
        self.told: Partitions | None = None
        self.has_next_step = False


class LiveGroup:
    """targeted_ms: monotonic, when its last target was made here. topics_version: of the topics with which
    its hash was compared last. causes: of the epochs since its last target."""

    __slots__ = ("assigned", "causes", "members", "targeted_ms", "topics_version")

    def __init__(self) -> None:
        self.members: dict[str, LiveMember] = {}
        self.targeted_ms: int | None = None
        self.topics_version = -1
        self.causes: list[Cause] = []
        self.assigned: deque[Assigned] = deque(maxlen=ASSIGNED_KEPT_MAX)


class ConsumerGroups:
    """topics: by name; None: they are not known yet, and no group can be served: it would look as if its
    topics had been deleted. topics_version: rises with each change of them. names: of the topics, by id."""

    __slots__ = ("live", "names", "store", "topics", "topics_version")

    def __init__(self, store: ConsumerStore) -> None:
        self.store = store
        self.live: dict[str, LiveGroup] = {}
        self.topics: Mapping[str, KnownTopic] | None = None
        self.names: dict[UUID, str] = {}
        self.topics_version = 0

    def know(self, topics: Mapping[str, KnownTopic]) -> None:
        if topics != self.topics:
            self.topics = topics
            self.names = {topic.topic_id: name for name, topic in topics.items()}
            self.topics_version += 1

    def existing(self, names: Iterable[str]) -> tuple[KnownTopic, ...]:
        """Return those of the topics that exist, by name."""
        topics = self.topics or {}
        return tuple(topics[name] for name in sorted(names) if name in topics)

    def ids_of(self, partitions: Iterable[NamedPartition]) -> Partitions:
        """Return those of the partitions whose topics exist."""
        topics = self.topics or {}
        return frozenset(
            TopicPartition(topics[name].topic_id, number) for name, number in partitions if name in topics
        )

    def names_of(self, partitions: Iterable[TopicPartition]) -> list[NamedPartition]:
        """Return those of the partitions whose topics exist, by name."""
        names = self.names
        return [(names[one.topic_id], one.partition) for one in partitions if one.topic_id in names]

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a number that changes with the topics of these names: with their ids and partitions. It is
        compared with itself only. (Kafka's is over racks, too, of which no assignor knows: KIP-1101.)"""
        found = self.existing(names)
        digest = blake2b(repr(found).encode(), digest_size=8).digest() if found else b""
        return int.from_bytes(digest, signed=True)

    def live_group(self, group_id: str) -> LiveGroup:
        return self.live.setdefault(group_id, LiveGroup())
