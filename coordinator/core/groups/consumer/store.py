"""What the records of a shard's `consumer` groups say, latest and committed."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.consumer_group_records import (
    ConsumerMember,
    ConsumerValue,
    CurrentAssignment,
    encode_consumer_key,
)
from coordinator.core.group_records import ConsumerGroupKey, ConsumerRecord
from coordinator.core.groups.consumer.state import ConsumerGroup, Member
from coordinator.core.machine import ShardRecord
from coordinator.core.views import TwoViews

_GONE_IN_ORDER = tuple(map(ConsumerRecord, (8, 7, 6, 5, 16, 3)))
"""As Kafka takes a group's records away: what members have before the members, and those before the group."""


class ConsumerStore:
    """members, subscription_bytes: of all groups, with every record applied.

    A group is put together when it is first asked for, and kept up to date from then on. A replay does not
    ask: of a compacted log its middle may show a partition with two members (KAFKA-19862).
    """

    __slots__ = ("_groups", "_keys", "members", "subscription_bytes", "values")

    def __init__(self) -> None:
        self.values: TwoViews[ConsumerGroupKey, ConsumerValue] = TwoViews()
        self.members = 0
        self.subscription_bytes = 0
        #: The keys of each group's records; a superset, from which `_load` takes what is gone.
        self._keys: dict[str, dict[ConsumerGroupKey, None]] = {}
        self._groups: dict[str, ConsumerGroup] = {}

    def apply(self, key: ConsumerGroupKey, value: ConsumerValue | None, offset: int) -> None:
        self._count(self.values.latest(key), -1)
        self.values.set(key, value, offset)
        self._count(value, 1)
        self._keys.setdefault(key.group_id, {})[key] = None
        if key.record is ConsumerRecord.EPOCH and value is None:
            self._groups.pop(key.group_id, None)
        elif (group := self._groups.get(key.group_id)) is not None:
            group.take(key, value)

    def commit(self, offset: int) -> None:
        self.values.commit(offset)

    def undo(self, offset: int) -> None:
        self.values.undo(offset)
        self._groups.clear()
        self.members = self.subscription_bytes = 0
        for _, value in self.values.latest_items():
            self._count(value, 1)

    def _count(self, value: ConsumerValue | None, step: int) -> None:
        if isinstance(value, ConsumerMember):
            self.members += step
            self.subscription_bytes += step * bytes_of(value)

    def latest(self, group_id: str) -> ConsumerGroup | None:
        """Return a group with every record applied. It changes with each record that is."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._load(group_id, self.values.latest)
            if group is not None:
                self._groups[group_id] = group
        return group

    def committed(self, group_id: str) -> ConsumerGroup | None:
        """Return a group with the committed records applied."""
        return self._load(group_id, self.values.committed)

    def has_committed(self, group_id: str) -> bool:
        """Return whether the group exists with the committed records applied."""
        return self.values.committed(ConsumerGroupKey(ConsumerRecord.EPOCH, group_id)) is not None

    def committed_member(self, group_id: str, member_id: str) -> Member | None:
        """Return a member without its target. A whole group would cost a look at all its members."""
        about = self.values.committed(ConsumerGroupKey(ConsumerRecord.MEMBER, group_id, member_id))
        current = self.values.committed(ConsumerGroupKey(ConsumerRecord.CURRENT, group_id, member_id))
        if not isinstance(about, ConsumerMember):
            return None
        return Member(about, current if isinstance(current, CurrentAssignment) else CurrentAssignment())

    def group_ids(self) -> set[str]:
        """Return the groups of which something may be stored, in either view."""
        return set(self._keys)

    def tombstones(self, group_id: str) -> list[ShardRecord]:
        """Return what takes all records of a group away: of its members first."""
        keys = (key for key in self._keys.get(group_id, ()) if self.values.latest(key) is not None)
        return [ShardRecord(encode_consumer_key(key), None) for key in sorted(keys, key=_order)]

    def is_under_way(self, group_id: str, member_id: str) -> bool:
        """Return whether a record of what the member is or has is not committed yet."""
        if self.values.is_level:
            return False
        for record in (ConsumerRecord.MEMBER, ConsumerRecord.CURRENT):
            key = ConsumerGroupKey(record, group_id, member_id)
            if self.values.latest(key) is not self.values.committed(key):
                return True
        return False

    def _load(
        self, group_id: str, view: Callable[[ConsumerGroupKey], ConsumerValue | None]
    ) -> ConsumerGroup | None:
        keys = self._keys.get(group_id, {})
        for key in [key for key in keys if self.values.latest(key) is self.values.committed(key) is None]:
            del keys[key]
        if not keys:
            self._keys.pop(group_id, None)
        if view(ConsumerGroupKey(ConsumerRecord.EPOCH, group_id)) is None:
            return None
        found = ((key, view(key)) for key in keys)
        return ConsumerGroup.load(group_id, ((key, value) for key, value in found if value is not None))


def _order(key: ConsumerGroupKey) -> tuple[int, str]:
    return _GONE_IN_ORDER.index(key.record), key.name


def bytes_of(about: ConsumerMember) -> int:
    """Return what a member's subscription takes."""
    protocols = () if about.classic is None else about.classic.protocols
    classic = sum(len(name) + len(metadata) for name, metadata in protocols)
    return sum(map(len, about.topics)) + len(about.pattern or "") + classic
