"""The `consumer` groups of a shard: what is stored, and what lives in the process alone: timers, the topics
that are known, and why a group was assigned last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from coordinator.core.consumer_group_records import Partitions, TopicPartition
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.consumer.store import ConsumerStore
from springtide.wire.questions import Place


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
    that it has; None: nothing, by this coordinator."""

    __slots__ = ("expires_ms", "revoking_epoch", "timer_ms", "told")

    def __init__(self) -> None:
        self.expires_ms = 0
        self.timer_ms: int | None = None
        self.revoking_epoch: int | None = None
        self.told: Partitions | None = None


class LiveGroup:
    """targeted_ms: monotonic, when its last target was made here. topics_version: of the topics with which
    its hash was compared last.

    For people: released: partitions that no member consumes, with the last one that did and until when.
    unsettled: members that have not all that the target gives them, and since when. last_heard: members that
    are given up for their silence. assigned_topics: those of the last target, by name. Times are Unix ms.
    """

    __slots__ = (
        "assigned_topics",
        "last_heard",
        "members",
        "released",
        "targeted_ms",
        "topics_version",
        "unsettled",
    )

    def __init__(self) -> None:
        self.members: dict[str, LiveMember] = {}
        self.targeted_ms: int | None = None
        self.topics_version = -1
        self.released: dict[TopicPartition, tuple[str, int]] = {}
        self.unsettled: dict[str, int] = {}
        self.last_heard: dict[str, int] = {}
        self.assigned_topics: dict[str, KnownTopic] = {}


class ConsumerGroups:
    """topics: by name; None: they are not known yet, and no group can be served: it would look as if its
    topics had been deleted. topics_version: rises with each change of them. configs: settings of groups that
    have some of their own."""

    __slots__ = ("_names", "configs", "live", "store", "topics", "topics_version")

    def __init__(self, store: ConsumerStore) -> None:
        self.store = store
        self.live: dict[str, LiveGroup] = {}
        self.topics: Mapping[str, KnownTopic] | None = None
        self.topics_version = 0
        self.configs: Mapping[str, Mapping[str, str]] = {}
        self._names: dict[UUID, str] | None = None

    def know(self, topics: Mapping[str, KnownTopic], configs: Mapping[str, Mapping[str, str]]) -> None:
        self.configs = configs
        if topics is not self.topics and topics != self.topics:
            self.topics = topics
            self.topics_version += 1
            self._names = None

    def place_of(self, partition: TopicPartition) -> Place:
        """Return a partition with its topic's name, or id where that is not known."""
        if self._names is None:
            self._names = {topic.topic_id: name for name, topic in (self.topics or {}).items()}
        topic_id, number = partition
        return self._names.get(topic_id) or str(topic_id), number

    def existing(self, names: Iterable[str]) -> tuple[KnownTopic, ...]:
        """Return those of the topics that exist, by name."""
        topics = self.topics or {}
        return tuple(topics[name] for name in sorted(names) if name in topics)

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a number that changes with the topics of these names: with their ids and partitions. It is
        compared with itself only. (Kafka's is over racks, too, of which no assignor knows: KIP-1101.)"""
        found = self.existing(names)
        digest = blake2b(repr(found).encode(), digest_size=8).digest() if found else b""
        return int.from_bytes(digest, signed=True)

    def live_group(self, group_id: str) -> LiveGroup:
        return self.live.setdefault(group_id, LiveGroup())
