"""What people are told of groups: how many members each has, and what it has committed."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.consumer.groups import LOST_MAX
from coordinator.core.groups.consumer.state import ConsumerGroupState
from coordinator.core.groups.registry import Registry


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A group. offsets: committed ones, by topic and partition. unsettled_ms: for how long it has not been
    stable for a minute on end; None: it is, or is empty. pending_ms: for how long an offset of an open
    transaction has been pending; None: none is. state: of a group of the `consumer` protocol; None: it is a
    classic one. lacks_target: its target could not be made, twice."""

    group_id: str
    members: int
    offsets: dict[tuple[str, int], CommittedOffset]
    unsettled_ms: int | None = None
    pending_ms: int | None = None
    state: ConsumerGroupState | None = None
    lacks_target: bool = False


def figures_of(registry: Registry, now_ms: int, wall_ms: int) -> list[GroupFigures]:
    """Return all groups of a shard, as its committed records and its members have them. now_ms: monotonic."""
    pending_ms: dict[str, int] = {}
    for pending, value in registry.store.pending.of.committed_items():
        group_id = pending.place.group_id
        pending_ms[group_id] = max(pending_ms.get(group_id, 0), wall_ms - value.offset.committed_ms)
    offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {
        group_id: {} for group_id in (*registry.live, *pending_ms)
    }
    for group_id in (*dict(registry.store.groups.committed_items()), *registry.consumers.store.group_ids()):
        offsets.setdefault(group_id, {})
    for key, committed in registry.store.offsets.committed_items():
        offsets.setdefault(key.group_id, {})[key.topic, key.partition] = committed
    return [
        _figures(registry, group_id, found, now_ms, pending_ms.get(group_id))
        for group_id, found in offsets.items()
    ]


def _figures(
    registry: Registry,
    group_id: str,
    offsets: dict[tuple[str, int], CommittedOffset],
    now_ms: int,
    pending_ms: int | None,
) -> GroupFigures:
    live, consumers = registry.live.get(group_id), registry.find_consumers(group_id)
    if consumers is not None:
        of_group = registry.consumers.live_group(group_id)
        return GroupFigures(
            group_id,
            len(consumers.members),
            offsets,
            of_group.settling.unsettled_ms(now_ms),
            pending_ms,
            consumers.state,
            lacks_target=of_group.lost >= LOST_MAX,
        )
    if live is None:
        return GroupFigures(group_id, 0, offsets, pending_ms=pending_ms)
    return GroupFigures(group_id, len(live.members), offsets, live.settling.unsettled_ms(now_ms), pending_ms)
