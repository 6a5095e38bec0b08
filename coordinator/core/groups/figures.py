"""What people are told of groups: how many members each has, and what it has committed."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.groups.registry import Registry


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A group. offsets: committed ones, by topic and partition."""

    group_id: str
    members: int
    offsets: dict[tuple[str, int], int]


def figures_of(registry: Registry) -> list[GroupFigures]:
    """Return all groups of a shard, as its committed records and its members have them."""
    offsets: dict[str, dict[tuple[str, int], int]] = {group_id: {} for group_id in registry.live}
    for group_id, _ in registry.store.groups.committed_items():
        offsets.setdefault(group_id, {})
    for key, committed in registry.store.offsets.committed_items():
        offsets.setdefault(key.group_id, {})[key.topic, key.partition] = committed.offset
    return [
        GroupFigures(group_id, len(live.members) if (live := registry.live.get(group_id)) else 0, found)
        for group_id, found in offsets.items()
    ]
