"""The state that a shard's records make, each part latest and committed: groups of both protocols, committed
offsets, and offsets of open transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from coordinator.core.consumer_group_records import ConsumerValue, decode_consumer_value
from coordinator.core.group_records import (
    CommittedOffset,
    ConsumerGroupKey,
    EndedKey,
    GroupKey,
    NewerGroupRecord,
    OffsetKey,
    PendingKey,
    StoredGroup,
    UnreadableGroupRecord,
    decode_group,
    decode_key,
    decode_offset,
)
from coordinator.core.groups.consumer.store import ConsumerStore
from coordinator.core.groups.pending import PendingOffsets
from coordinator.core.machine import ShardRecord
from coordinator.core.pending_records import decode_ended, decode_pending
from coordinator.core.views import TwoViews
from springtide.levels import NEWEST, RELEASES

T = TypeVar("T")


class GroupStore:
    """The replayed state of a shard. groups: those of the classic protocol.

    Legacy offsets (type 0) are skipped: they have never been written here, and a tombstone of type 1 would
    not remove them."""

    __slots__ = ("_keys", "consumers", "groups", "offsets", "pending")

    def __init__(self) -> None:
        self.groups: TwoViews[str, StoredGroup] = TwoViews()
        self.consumers = ConsumerStore()
        self.offsets: TwoViews[OffsetKey, CommittedOffset] = TwoViews()
        self.pending = PendingOffsets()
        #: The keys of each group's offsets; a superset, from which `_keys_of` takes what is gone.
        self._keys: dict[str, dict[OffsetKey, None]] = {}

    def apply(self, record: ShardRecord, offset: int) -> None:
        """Apply a record to the latest view. Raise UnreadableGroupRecord for one that Kafka could not read,
        and for one of another type: groups would be served without what it says. A tombstone takes only away
        what is not here."""
        key = decode_key(record.key)
        if isinstance(key, OffsetKey):
            if not key.is_legacy:
                value = None if record.value is None else _read(decode_offset, record.value, key.group_id)
                self.offsets.set(key, value, offset)
                self._keys.setdefault(key.group_id, {})[key] = None
        elif isinstance(key, GroupKey):
            stored = None if record.value is None else _read(decode_group, record.value, key.group_id)
            self.groups.set(key.group_id, stored, offset)
        elif isinstance(key, ConsumerGroupKey):
            self.consumers.apply(key, _read_consumer(key, record.value), offset)
        elif isinstance(key, PendingKey):
            value_of = (
                None if record.value is None else _read(decode_pending, record.value, key.place.group_id)
            )
            self.pending.apply(key, value_of, offset)
        elif isinstance(key, EndedKey):
            self.pending.ended.set(
                key.producer_id, None if record.value is None else decode_ended(record.value), offset
            )
        elif record.value is not None:
            raise NewerGroupRecord(
                f"the record at offset {offset} is of type {key.key_type}, which this release, "
                f"{RELEASES[NEWEST]}, does not know"
            )

    def commit(self, offset: int) -> None:
        self.groups.commit(offset)
        self.consumers.commit(offset)
        self.offsets.commit(offset)
        self.pending.commit(offset)

    def undo(self, offset: int) -> None:
        self.groups.undo(offset)
        self.consumers.undo(offset)
        self.offsets.undo(offset)
        self.pending.undo(offset)

    def latest_offsets(self, group_id: str) -> list[tuple[OffsetKey, CommittedOffset]]:
        """Return the offsets of a group with every record applied, by topic and partition."""
        return self._offsets_of(group_id, self.offsets.latest)

    def committed_offsets(self, group_id: str) -> list[tuple[OffsetKey, CommittedOffset]]:
        """Return the offsets of a group with the committed records applied, by topic and partition."""
        return self._offsets_of(group_id, self.offsets.committed)

    def group_ids(self) -> set[str]:
        """Return the groups of which something may be stored, in either view."""
        groups = self.groups
        stored = {*dict(groups.latest_items()), *dict(groups.committed_items())}
        return {*self._keys, *stored, *self.consumers.group_ids(), *self.pending.group_ids()}

    def is_under_way(self, group_id: str) -> bool:
        """Return whether a record of the group is not committed yet."""
        return not self.groups.is_settled(group_id)

    def has_latest_offsets(self, group_id: str) -> bool:
        """Return whether the group has offsets with every record applied, or some that are pending."""
        has_offsets = any(self.offsets.latest(key) is not None for key in self._keys.get(group_id, ()))
        return has_offsets or bool(self.pending.places(group_id))

    def _offsets_of(
        self, group_id: str, view: Callable[[OffsetKey], CommittedOffset | None]
    ) -> list[tuple[OffsetKey, CommittedOffset]]:
        keys = self._keys.get(group_id, {})
        gone = [key for key in keys if self.offsets.latest(key) is self.offsets.committed(key) is None]
        for key in gone:
            del keys[key]
        if not keys:
            self._keys.pop(group_id, None)
        found = ((key, view(key)) for key in sorted(keys))
        return [(key, value) for key, value in found if value is not None]


def _read_consumer(key: ConsumerGroupKey, value: bytes | None) -> ConsumerValue | None:
    if value is None:
        return None
    return _read(lambda raw: decode_consumer_value(key.record, raw), value, key.group_id)


def _read(decode: Callable[[bytes], T], value: bytes, group_id: str) -> T:
    try:
        return decode(value)
    except UnreadableGroupRecord as error:
        raise type(error)(f"group {group_id[:200]!r}: {error}") from error
