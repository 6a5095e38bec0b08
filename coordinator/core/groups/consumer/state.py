"""A `consumer` group as its records make it, and what follows from them.

A member moves towards its target alone, whatever the others do:

                     the target is newer; it has something to give up
    STABLE ───────────────────────────────────────▶ UNREVOKED_PARTITIONS
      ▲  ▲                                                  │ it has given all of that up
      │  └──────────── all of its target is free ───────────┤
      │                                                     │ others may still consume a part of its target
      └─────────────── all of it is free ────── UNRELEASED_PARTITIONS
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import NamedTuple
from uuid import UUID

from coordinator.core.consumer_group_records import (
    ConsumerMember,
    ConsumerValue,
    CurrentAssignment,
    GroupEpoch,
    ResolvedPattern,
    TargetEpoch,
)
from coordinator.core.group_records import ConsumerGroupKey, ConsumerRecord
from coordinator.core.topic_partitions import PartitionsByTopic, without

AWAY = -2
"""The epoch of a static member that will be back before its session ends."""
FIRST_EPOCH = 1
"""Of a group that has just been made, and of its target, which is empty: the first member that joins raises
the group's, and has an epoch itself even if its target comes later (KAFKA-20268)."""


class MemberState(IntEnum):
    """As it is stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupState(StrEnum):
    """What people are told of a group."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


_NOTHING: PartitionsByTopic = {}
_NO_PARTITIONS = CurrentAssignment()


class Member(NamedTuple):
    """target: its part of the target assignment."""

    about: ConsumerMember
    current: CurrentAssignment = CurrentAssignment()
    target: PartitionsByTopic = _NOTHING

    def is_settled(self, target_epoch: int) -> bool:
        """Return whether the member has all that the target of this epoch gives it."""
        return (self.current.epoch, self.current.state) == (target_epoch, MemberState.STABLE)


class ConsumerGroup:
    """A group. members: by id. owners: of each topic, by partition, the member that has it or has yet to
    give it up.

    instances: the member id of each static member. names: by how many members each topic is named; asked: by
    how many each pattern is. patterns: what the resolved ones stand for.
    """

    __slots__ = (
        "asked",
        "epoch",
        "group_id",
        "instances",
        "members",
        "names",
        "owners",
        "patterns",
        "target",
        "topics_hash",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.topics_hash = 0
        self.target = TargetEpoch(FIRST_EPOCH)
        self.members: dict[str, Member] = {}
        self.owners: dict[UUID, dict[int, str]] = {}
        self.instances: dict[str, str] = {}
        self.names: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.patterns: dict[str, ResolvedPattern] = {}

    @classmethod
    def load(cls, group_id: str, values: Iterable[tuple[ConsumerGroupKey, ConsumerValue]]) -> ConsumerGroup:
        """Return a group of these values. Those of members that are none are left out: the values may be
        those of a part of a batch."""
        group = cls(group_id)
        for key, value in sorted(values, key=lambda pair: pair[0]):  # members before what they have
            group.take(key, value)
        return group

    def take(self, key: ConsumerGroupKey, value: ConsumerValue | None) -> None:
        """Take in a record's value; None: its tombstone."""
        match key.record, value:
            case ConsumerRecord.EPOCH, GroupEpoch(epoch, topics_hash):
                self.epoch, self.topics_hash = epoch, topics_hash
            case ConsumerRecord.TARGET_EPOCH, None:
                self.target = TargetEpoch(FIRST_EPOCH)
            case ConsumerRecord.TARGET_EPOCH, TargetEpoch():
                self.target = value
            case ConsumerRecord.PATTERN, None:
                self.patterns.pop(key.name, None)
            case ConsumerRecord.PATTERN, ResolvedPattern():
                self.patterns[key.name] = value
            case ConsumerRecord.MEMBER, ConsumerMember() | None:
                self._set_member(key.name, value)
            case ConsumerRecord.CURRENT, CurrentAssignment() | None if member := self.members.get(key.name):
                current = value or CurrentAssignment()
                self._disown(key.name, member.current, current)
                self._own(key.name, member._replace(current=current))
            case ConsumerRecord.TARGET, dict() | None if member := self.members.get(key.name):
                self.members[key.name] = member._replace(target=value or {})

    def _set_member(self, member_id: str, about: ConsumerMember | None) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self._disown(member_id, before.current)
            self._count(member_id, before.about, -1)
        if about is not None:
            self._count(member_id, about, 1)
            self._own(member_id, Member(about) if before is None else before._replace(about=about))

    def _count(self, member_id: str, about: ConsumerMember, step: int) -> None:
        for counter, names in ((self.names, about.topics), (self.asked, (about.pattern,))):
            for name in filter(None, names):
                counter[name] += step
                if not counter[name]:
                    del counter[name]
        if about.instance_id is not None:
            if step > 0:
                self.instances[about.instance_id] = member_id
            elif self.instances.get(about.instance_id) == member_id:
                del self.instances[about.instance_id]

    def _own(self, member_id: str, member: Member) -> None:
        self.members[member_id] = member
        for stamped in (member.current.assigned, member.current.revoking):
            for topic_id, own in stamped.items():
                self.owners.setdefault(topic_id, {}).update(dict.fromkeys(own, member_id))

    def _disown(
        self, member_id: str, before: CurrentAssignment, after: CurrentAssignment = _NO_PARTITIONS
    ) -> None:
        """Take from a member what it had and has not any more."""
        for stamped in (before.assigned, before.revoking):
            for topic_id, own in without(stamped, after.assigned, after.revoking).items():
                owners = self.owners[topic_id]
                for partition in own:
                    if owners.get(partition) == member_id:
                        del owners[partition]
                if not owners:
                    del self.owners[topic_id]

    # --- what follows ------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Return whether the target is older than what has to be assigned."""
        return self.target.epoch < self.epoch

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.is_due:
            return ConsumerGroupState.ASSIGNING
        is_stable = all(member.is_settled(self.target.epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING

    def subscribed(self) -> frozenset[str]:
        """Return the names of topics that any member subscribes."""
        resolved = (self.patterns[one].topics for one in self.asked if one in self.patterns)
        return frozenset(self.names).union(*resolved)
