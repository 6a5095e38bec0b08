"""Offsets expire (KIP-211): a group's, long after it became empty; of topics that no member
subscribes any more, long after the commit. Never in a rebalance (KAFKA-13636): members that come back need
them; nor one that an open transaction may replace, or its group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from coordinator.core.group_records import CommittedOffset, OffsetKey
from coordinator.core.groups.consumer.admin import delete_consumer_group
from coordinator.core.groups.consumer.state import ConsumerGroup
from coordinator.core.groups.offsets import tombstone
from coordinator.core.groups.options import EXPIRED_PER_STEP, EXPIRY_KEYS_PER_STEP
from coordinator.core.groups.registry import ExpiryTimer, Registry, Turn
from coordinator.core.groups.state import ClassicGroup, GroupState
from coordinator.core.groups.transactions import expire_ended

Offsets: TypeAlias = list[tuple[OffsetKey, CommittedOffset]]


def on_expiry_timer(registry: Registry, turn: Turn, expiry_ms: int | None) -> None:
    """Look at some groups for expired offsets; the next step continues where this one ended. expiry_ms: see
    TimerDue; while it is None, none is looked at."""
    if expiry_ms is None:
        turn.timers[ExpiryTimer()] = turn.now_ms + registry.options.retention_check_ms
        return
    if not registry.unchecked and not registry.unchecked_producers:
        registry.unchecked = sorted(
            registry.store.group_ids() | registry.live.keys() | registry.deleted.keys(), reverse=True
        )
        registry.unchecked_producers = sorted(registry.store.pending.producers(), reverse=True)
    seen = 0
    while registry.unchecked and seen < EXPIRY_KEYS_PER_STEP and len(turn.records) < EXPIRED_PER_STEP:
        seen += 1 + _expire(registry, turn, registry.unchecked.pop(), expiry_ms)
    producers = registry.unchecked_producers
    while producers and seen < EXPIRY_KEYS_PER_STEP and len(turn.records) < EXPIRED_PER_STEP:
        expire_ended(registry, turn, producers.pop(), expiry_ms)
        seen += 1
    wait_ms = 0 if registry.unchecked or producers else registry.options.retention_check_ms
    turn.timers[ExpiryTimer()] = turn.now_ms + wait_ms


def _expire(registry: Registry, turn: Turn, group_id: str, expiry_ms: int) -> int:
    """Write tombstones of a group's expired offsets, and that of the group if it is empty and has none left.
    Return how many offsets it has."""
    offsets = registry.store.latest_offsets(group_id)
    consumers = registry.find_consumers(group_id)
    if consumers is not None:
        _expire_consumers(registry, turn, consumers, offsets, expiry_ms)
        return len(offsets)
    group = registry.find(turn, group_id)
    if group is None:
        if registry.store.groups.committed(group_id) is None:
            registry.deleted.pop(group_id, None)
        return 0
    expired = _expired(registry, _kept_of(group), offsets, expiry_ms)
    turn.records += map(tombstone, expired[:EXPIRED_PER_STEP])
    is_left = len(expired) < len(offsets) or len(expired) > EXPIRED_PER_STEP
    is_left = is_left or bool(registry.store.pending.places(group_id))
    if group.state is GroupState.EMPTY and not group.pending and not is_left:
        registry.delete(turn, group)
    registry.forget(group)
    return len(offsets)


def _expire_consumers(
    registry: Registry, turn: Turn, group: ConsumerGroup, offsets: Offsets, expiry_ms: int
) -> None:
    """Do the same for a group of the `consumer` protocol: one without members has been empty since its last
    target was made."""
    idle_since_ms = 0 if group.members else group.target.made_ms
    kept = KeptOffsets(group.subscribed().__contains__, idle_since_ms)
    expired = _expired(registry, kept, offsets, expiry_ms)[:EXPIRED_PER_STEP]
    turn.records += map(tombstone, expired)
    if not group.members and len(expired) == len(offsets):
        delete_consumer_group(registry, turn, group)


class KeptOffsets(NamedTuple):
    """Which offsets of a group are kept: those of a topic that may be consumed, and all of them for a time
    after idle_since_ms; 0: after each commit."""

    is_subscribed: Callable[[str], bool]
    idle_since_ms: int


def _kept_of(group: ClassicGroup) -> KeptOffsets:
    subscribed = group.subscribed()
    is_empty = group.state is GroupState.EMPTY
    if not is_empty and (group.state is not GroupState.STABLE or subscribed is None):
        return KeptOffsets(lambda _: True, 0)
    is_idle = is_empty and group.protocol_type is not None
    return KeptOffsets(
        partial(group.is_subscribed, subscribed=subscribed), group.changed_ms if is_idle else 0
    )


def _expired(registry: Registry, kept: KeptOffsets, offsets: Offsets, expiry_ms: int) -> list[OffsetKey]:
    """Return the offsets that have been kept long enough.

    An expiry that the client named counts alone. An operator's commit to a group that has long been empty is
    kept from the commit on. (Kafka counts from when the group became empty, and drops it at the next look.)
    """

    def is_over(value: CommittedOffset) -> bool:
        if value.expires_ms is not None:
            return expiry_ms >= value.expires_ms
        return expiry_ms - max(value.committed_ms, kept.idle_since_ms) >= registry.options.retention_ms

    return [
        key
        for key, value in offsets
        if not kept.is_subscribed(key.topic) and is_over(value) and not registry.store.pending.at(key)
    ]
