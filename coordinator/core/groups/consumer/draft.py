"""A `consumer` group as one step will leave it, and the records that bring it there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias
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
from coordinator.core.groups.consumer.state import ConsumerGroup, Member
from coordinator.core.topic_partitions import StampedPartitions, epoch_of

KeyedValue: TypeAlias = tuple[ConsumerGroupKey, ConsumerValue | None]


class GroupDraft:
    """group: as the records have it. is_new: it has none yet. converted: the records that make a group of
    the classic protocol this one (upgrade.py); they are not written yet. changed: members that are, None:
    those that go. resolved: patterns that are anew. The rest: see ConsumerGroup."""

    __slots__ = ("changed", "converted", "epoch", "group", "is_new", "resolved", "target", "topics_hash")

    def __init__(
        self, group: ConsumerGroup, *, is_new: bool = False, converted: tuple[KeyedValue, ...] = ()
    ) -> None:
        self.group = group
        self.is_new = is_new
        self.converted = converted
        self.changed: dict[str, Member | None] = {}
        self.resolved: dict[str, ResolvedPattern] = {}
        self.epoch = group.epoch
        self.topics_hash = group.topics_hash
        self.target = group.target

    def __getitem__(self, member_id: str) -> Member | None:
        return self.changed[member_id] if member_id in self.changed else self.group.members.get(member_id)

    def members(self) -> dict[str, Member]:
        merged = {**self.group.members, **self.changed}
        return {member_id: member for member_id, member in merged.items() if member is not None}

    def free_for(self, member_id: str, partitions: StampedPartitions) -> StampedPartitions:
        """Return those of the partitions that no other member has, or has yet to give up. What the member
        itself has yet to give up is free for it (KAFKA-16147)."""
        found: dict[UUID, Mapping[int, int]] = {}
        for topic_id, own in partitions.items():
            free = own
            if owners := self.group.owners.get(topic_id):
                free = {
                    one: epoch
                    for one, epoch in own.items()
                    if one not in owners or self._lets_go(owners[one], topic_id, one, member_id)
                }
            if free:
                found[topic_id] = free
        return found

    def _lets_go(self, owner: str, topic_id: UUID, partition: int, to: str) -> bool:
        if owner == to or owner not in self.changed:
            return owner == to
        member = self.changed[owner]
        return member is None or not _holds(member.current, topic_id, partition)

    def topics_of(self, about: ConsumerMember) -> frozenset[str]:
        """Return the names of topics that a member subscribes."""
        return frozenset(about.topics).union(self._matched(about.pattern))

    def subscribed(self) -> frozenset[str]:
        """Return the names of topics that any member subscribes."""
        names = Counter(self.group.names)
        for before, member in self._changes():
            names.subtract(() if before is None else before.about.topics)
            names.update(() if member is None else member.about.topics)
        return frozenset(+names).union(*map(self._matched, self.asked()))

    def _matched(self, pattern: str | None) -> tuple[str, ...]:
        resolved = self.resolved.get(pattern or "") or self.group.patterns.get(pattern or "")
        return () if resolved is None else resolved.topics

    def asked(self) -> Counter[str]:
        """Return how many members subscribe each pattern."""
        if not self.changed:
            return self.group.asked
        asked = Counter(self.group.asked)
        for before, member in self._changes():
            asked.subtract([before.about.pattern] if before is not None and before.about.pattern else [])
            asked.update([member.about.pattern] if member is not None and member.about.pattern else [])
        return +asked

    def _changes(self) -> Iterator[tuple[Member | None, Member | None]]:
        """Yield the members whose subscription may have changed, as they were and as they are."""
        for member_id, member in self.changed.items():
            before = self.group.members.get(member_id)
            if before is None or member is None or before.about is not member.about:
                yield before, member

    @property
    def is_same(self) -> bool:
        """Return whether the group stays as it is, as with nearly all heartbeats."""
        group = self.group
        is_changed = self.changed or self.resolved or self.is_new or self.converted
        return (
            not is_changed
            and self.target is group.target
            and (self.epoch, self.topics_hash) == (group.epoch, group.topics_hash)
        )

    @property
    def was_made(self) -> bool:
        """Return whether the group has not been one of the `consumer` protocol before."""
        return self.is_new or bool(self.converted)

    def records(self) -> Iterator[KeyedValue]:
        """Yield what has to be written. Each beginning of it is a legal state: members before what they have,
        and who goes lets go of everything first."""
        group, group_id = self.group, self.group.group_id
        if self.is_same:
            return
        yield from self.converted
        gone = [one for one, member in self.changed.items() if member is None and one in group.members]
        for member_id in gone:
            for record in (ConsumerRecord.CURRENT, ConsumerRecord.TARGET, ConsumerRecord.MEMBER):
                yield ConsumerGroupKey(record, group_id, member_id), None
        now = [(member_id, member) for member_id, member in self.changed.items() if member is not None]
        before = {member_id: group.members.get(member_id) for member_id, _ in now}
        for member_id, member in now:
            if (old := before[member_id]) is None or old.about != member.about:
                yield ConsumerGroupKey(ConsumerRecord.MEMBER, group_id, member_id), member.about
        for pattern in sorted(group.patterns.keys() - self.asked().keys()) if group.patterns else ():
            yield ConsumerGroupKey(ConsumerRecord.PATTERN, group_id, pattern), None
        for pattern, resolved in self.resolved.items():
            yield ConsumerGroupKey(ConsumerRecord.PATTERN, group_id, pattern), resolved
        if self.is_new or (self.epoch, self.topics_hash) != (group.epoch, group.topics_hash):
            key = ConsumerGroupKey(ConsumerRecord.EPOCH, group_id)
            yield key, GroupEpoch(self.epoch, self.topics_hash)
        for member_id, member in now:
            if (old := before[member_id]) is None or old.target != member.target:
                yield ConsumerGroupKey(ConsumerRecord.TARGET, group_id, member_id), member.target
        if self.target != group.target:
            yield ConsumerGroupKey(ConsumerRecord.TARGET_EPOCH, group_id), self.target
        for member_id, member in now:
            if (old := before[member_id]) is None or old.current != member.current:
                yield ConsumerGroupKey(ConsumerRecord.CURRENT, group_id, member_id), member.current

    def raise_epoch(self, topics_hash: int) -> None:
        self.epoch = self.group.epoch + 1
        self.topics_hash = topics_hash

    def retarget(self, epoch: int, made_ms: int) -> None:
        self.target = TargetEpoch(epoch, made_ms)


def _holds(current: CurrentAssignment, topic_id: UUID, partition: int) -> bool:
    parts = (current.assigned, current.revoking)
    return any(epoch_of(part, topic_id, partition) is not None for part in parts)
