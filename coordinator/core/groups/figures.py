"""What people are told of groups: how many members each has, and what it has committed."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.registry import Registry
from coordinator.core.groups.state import ClassicGroup


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A group. offsets: committed ones, by topic and partition. unsettled_ms: for how long it has not been
    stable for a minute on end; None: it is, or is empty."""

    group_id: str
    members: int
    offsets: dict[tuple[str, int], CommittedOffset]
    unsettled_ms: int | None = None


def figures_of(registry: Registry, now_ms: int) -> list[GroupFigures]:
    """Return all groups of a shard, as its committed records and its members have them. now_ms: monotonic."""
    offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {group_id: {} for group_id in registry.live}
    for group_id, _ in registry.store.groups.committed_items():
        offsets.setdefault(group_id, {})
    for key, committed in registry.store.offsets.committed_items():
        offsets.setdefault(key.group_id, {})[key.topic, key.partition] = committed
    return [
        _figures(group_id, registry.live.get(group_id), found, now_ms) for group_id, found in offsets.items()
    ]


def _figures(
    group_id: str,
    live: ClassicGroup | None,
    offsets: dict[tuple[str, int], CommittedOffset],
    now_ms: int,
) -> GroupFigures:
    if live is None:
        return GroupFigures(group_id, 0, offsets)
    return GroupFigures(group_id, len(live.members), offsets, live.unsettled_ms(now_ms))
