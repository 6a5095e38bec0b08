"""The `consumer` groups of a shard: what is stored, and what lives in the process alone: timers, the topics
that are known, and why a group was assigned last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from coordinator.core.consumer_group_records import ConsumerMember
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.placing import Placing
from coordinator.core.groups.consumer.store import ConsumerStore
from coordinator.core.groups.history import GroupCause
from coordinator.core.groups.settling import Settling
from coordinator.core.topic_partitions import (
    PartitionsByTopic,
    StampedPartitions,
    TopicIdPartition,
    by_topic,
)
from springtide.wire.questions import Place

LOST_MAX = 2
"""Targets in a row that were asked for and got no answer, before the present one stays for a while, with an
alarm."""


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


class Who(NamedTuple):
    """Whom rights are asked for. host: an address."""

    principal: str
    host: str


class LiveMember:
    """expires_ms: when its session ends. timer_ms: when its timer is due, at or before that; None without.
    revoking_epoch: at which it was asked to give up partitions; None: it was not. told: what it was told last
    that it has; None: nothing, by this coordinator. has_next_step: its timer of that name runs. must_hear:
    it has not shown yet that it has heard that. must_show: what it said last that it consumes is not known,
    or was not believed. was_asked: its last heartbeat was answered with that question."""

    __slots__ = (
        "expires_ms",
        "has_next_step",
        "must_hear",
        "must_show",
        "revoking_epoch",
        "timer_ms",
        "told",
        "was_asked",
    )

    def __init__(self) -> None:
        self.expires_ms = 0
        self.timer_ms: int | None = None
        self.revoking_epoch: int | None = None
        self.told: StampedPartitions | None = None
        self.has_next_step = False
        self.must_hear = False
        self.must_show = False
        self.was_asked = False


class LiveGroup:
    """targeted_ms: monotonic, when its last target was begun here. put_off_ms: no target before. placing: the
    target that is asked for, or known and not written yet. lost: how often in a row no answer came.
    resolving: the question about patterns that is waited for. resolved_ms: when the last was put;
    resolved_version: how many topics had been created by then. who: whose rights each member with a pattern
    has, as far as it is known. counted: whose rights counted in what a pattern stands for, as far as it is
    known. withheld: members that get nothing by their pattern yet.
    topics_version: of the topics with which its hash was compared last.

    For people: settling: for how long its members have not had all of their targets. later: causes since the
    target was asked for that is on its way. released: partitions that no member consumes, with the last one
    that did and until when. unsettled: members that have not all that the target gives them, and since when.
    last_heard: members that are given up for their silence. assigned_topics: those of the last target, by
    name. Times are Unix milliseconds.
    """

    __slots__ = (
        "assigned_topics",
        "counted",
        "last_heard",
        "later",
        "lost",
        "members",
        "placing",
        "put_off_ms",
        "released",
        "resolved_ms",
        "resolved_version",
        "resolving",
        "settling",
        "targeted_ms",
        "topics_version",
        "unsettled",
        "who",
        "withheld",
    )

    def __init__(self) -> None:
        self.members: dict[str, LiveMember] = {}
        self.targeted_ms: int | None = None
        self.put_off_ms = 0
        self.placing: Placing | None = None
        self.lost = 0
        self.resolving: object = None
        self.resolved_ms: int | None = None
        self.resolved_version = -1
        self.who: dict[str, Who] = {}
        self.counted: dict[str, frozenset[Who]] = {}
        self.withheld: set[str] = set()
        self.topics_version = -1
        self.settling = Settling()
        self.later: list[GroupCause] = []
        self.released: dict[TopicIdPartition, tuple[str, int]] = {}
        self.unsettled: dict[str, int] = {}
        self.last_heard: dict[str, int] = {}
        self.assigned_topics: dict[str, KnownTopic] = {}


class ConsumerGroups:
    """topics: by name; None: they are not known yet, and no group can be served: it would look as if its
    topics had been deleted. topics_version: rises with each change of them. created_version:
    with each one that brings a new name. configs: settings of groups that have some of their own."""

    __slots__ = ("_names", "configs", "created_version", "live", "store", "topics", "topics_version")

    def __init__(self, store: ConsumerStore) -> None:
        self.store = store
        self.live: dict[str, LiveGroup] = {}
        self.topics: Mapping[str, KnownTopic] | None = None
        self.topics_version = 0
        self.configs: Mapping[str, Mapping[str, str]] = {}
        self.created_version = 0
        self._names: dict[UUID, str] | None = None

    def know(self, topics: Mapping[str, KnownTopic], configs: Mapping[str, Mapping[str, str]]) -> None:
        self.configs = configs
        if topics is not self.topics and topics != self.topics:
            self.created_version += not topics.keys() <= (self.topics or {}).keys()
            self.topics = topics
            self.topics_version += 1
            self._names = None

    @property
    def names(self) -> Mapping[UUID, str]:
        """Return the names of the topics, by id."""
        if self._names is None:
            self._names = {topic.topic_id: name for name, topic in (self.topics or {}).items()}
        return self._names

    def place_of(self, partition: TopicIdPartition) -> Place:
        """Return a partition with its topic's name, or id where that is not known."""
        topic_id, number = partition
        return self.names.get(topic_id) or str(topic_id), number

    def existing(self, names: Iterable[str]) -> tuple[KnownTopic, ...]:
        """Return those of the topics that exist, by name."""
        topics = self.topics or {}
        return tuple(topics[name] for name in sorted(names) if name in topics)

    def topics_of(self, draft: GroupDraft, member_id: str, about: ConsumerMember) -> tuple[KnownTopic, ...]:
        """Return the topics that a member can be assigned."""
        live = self.live.get(draft.group.group_id)
        is_withheld = live is not None and member_id in live.withheld
        return self.existing(about.topics if is_withheld else draft.topics_of(about))

    def ids_of(self, partitions: Iterable[Place]) -> PartitionsByTopic:
        """Return those of the partitions whose topics exist."""
        topics = self.topics or {}
        return by_topic((topics[name].topic_id, (number,)) for name, number in partitions if name in topics)

    def names_of(self, partitions: StampedPartitions) -> list[Place]:
        """Return those of the partitions whose topics exist, by name."""
        known = ((self.names.get(topic_id), own) for topic_id, own in partitions.items())
        return [(name, partition) for name, own in known if name is not None for partition in own]

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a number that changes with the topics of these names: with their ids and partitions. It is
        compared with itself only. (Kafka's is over racks, too, of which no assignor knows: KIP-1101.)"""
        found = self.existing(names)
        digest = blake2b(repr(found).encode(), digest_size=8).digest() if found else b""
        return int.from_bytes(digest, signed=True)

    def live_group(self, group_id: str) -> LiveGroup:
        live = self.live.get(group_id)
        if live is None:
            live = self.live[group_id] = LiveGroup()
        return live
