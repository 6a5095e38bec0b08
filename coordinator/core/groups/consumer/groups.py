"""The `consumer` groups of a shard: what is stored, and what lives in the process alone: timers, the topics
that are known, and why a group was assigned last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from coordinator.core.consumer_group_records import ConsumerMember, Partitions
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.consumer.causes import Assigned, Cause
from coordinator.core.groups.consumer.draft import Draft
from coordinator.core.groups.consumer.placing import Placing
from coordinator.core.groups.consumer.store import ConsumerStore

ASSIGNED_KEPT_MAX = 20
"""Assignments of one group that people can be told of."""
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
    that it has; None: nothing, by this coordinator."""

    __slots__ = ("expires_ms", "revoking_epoch", "timer_ms", "told")

    def __init__(self) -> None:
        self.expires_ms = 0
        self.timer_ms: int | None = None
        self.revoking_epoch: int | None = None
        self.told: Partitions | None = None


class LiveGroup:
    """targeted_ms: monotonic, when its last target was begun here. put_off_ms: no target before. placing: the
    target that is asked for, or known and not written yet. lost: how often in a row no answer came.
    resolving: the question about patterns that is waited for. resolved_ms: when the last was put;
    resolved_version: how many topics had been created by then. who: whose rights each member with a pattern
    has, as far as it is known. counted: whose rights counted in what a pattern stands for, as far as it is
    known. withheld: members that get nothing by their pattern yet.
    topics_version: of the topics with which its hash was compared last. causes: of the epochs since its last
    target."""

    __slots__ = (
        "assigned",
        "causes",
        "counted",
        "lost",
        "members",
        "placing",
        "put_off_ms",
        "resolved_ms",
        "resolved_version",
        "resolving",
        "targeted_ms",
        "topics_version",
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
        self.causes: list[Cause] = []
        self.assigned: deque[Assigned] = deque(maxlen=ASSIGNED_KEPT_MAX)


class ConsumerGroups:
    """topics: by name; None: they are not known yet, and no group can be served: it would look as if its
    topics had been deleted. topics_version: rises with each change of them. created_version:
    with each one that brings a new name."""

    __slots__ = ("created_version", "live", "store", "topics", "topics_version")

    def __init__(self, store: ConsumerStore) -> None:
        self.store = store
        self.live: dict[str, LiveGroup] = {}
        self.topics: Mapping[str, KnownTopic] | None = None
        self.topics_version = 0
        self.created_version = 0

    def know(self, topics: Mapping[str, KnownTopic]) -> None:
        if topics != self.topics:
            self.created_version += not topics.keys() <= (self.topics or {}).keys()
            self.topics = topics
            self.topics_version += 1

    def existing(self, names: Iterable[str]) -> tuple[KnownTopic, ...]:
        """Return those of the topics that exist, by name."""
        topics = self.topics or {}
        return tuple(topics[name] for name in sorted(names) if name in topics)

    def topics_of(self, draft: Draft, member_id: str, about: ConsumerMember) -> tuple[KnownTopic, ...]:
        """Return the topics that a member can be assigned."""
        live = self.live.get(draft.group.group_id)
        is_withheld = live is not None and member_id in live.withheld
        return self.existing(about.topics if is_withheld else draft.topics_of(about))

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a number that changes with the topics of these names: with their ids and partitions. It is
        compared with itself only. (Kafka's is over racks, too, of which no assignor knows: KIP-1101.)"""
        found = self.existing(names)
        digest = blake2b(repr(found).encode(), digest_size=8).digest() if found else b""
        return int.from_bytes(digest, signed=True)

    def live_group(self, group_id: str) -> LiveGroup:
        return self.live.setdefault(group_id, LiveGroup())
