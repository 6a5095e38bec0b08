"""What a classic group's rebalance moves, and for how long partitions were without an owner: for people.

The coordinator does not assign here, it reads what the leader has assigned. With the eager protocol a member
gives all up before it joins again, so that partitions which it gets back stood still, too; with the
cooperative one (KIP-429) it goes on with those that its subscription names.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.groups.history import NOT_KNOWN, PARTITIONS_FOLLOWED_MAX, NotedRebalance
from coordinator.core.groups.state import CONSUMER_TYPE, ClassicGroup
from coordinator.core.groups.subscription import owned_places
from springtide.wire.consumer_protocol import assigned_places
from springtide.wire.questions import Place

BYTES_FOLLOWED_MAX = 4 * PARTITIONS_FOLLOWED_MAX
"""Of assignments: a partition is four bytes, beside its topic's name."""

#: Which member had a partition, and since when it does not consume it; None: it goes on.
_Before = dict[Place, tuple[str, int | None]]


def note_assignments(
    rebalance: NotedRebalance, group: ClassicGroup, assignments: Mapping[str, bytes], wall_ms: int
) -> None:
    """Note what the leader's assignments change of those before. Groups of other clients than consumers are
    not read, nor are those with more than PARTITIONS_FOLLOWED_MAX partitions."""
    rebalance.assigned_ms, rebalance.assignor = wall_ms, group.protocol or ""
    if group.protocol_type != CONSUMER_TYPE or not _is_small(group, assignments):
        group.released.clear()
        return
    before = _before(group, wall_ms)
    rebalance.to_move = rebalance.moved = rebalance.paused = 0
    for member_id in group.members:
        for place in assigned_places(assignments.get(member_id, b"")):
            owner, since_ms = before.pop(place, ("", NOT_KNOWN))
            unowned_ms = 0 if since_ms is None else max(0, wall_ms - since_ms)
            if owner == member_id:
                if since_ms is not None:
                    rebalance.note_pause(unowned_ms)
            else:
                rebalance.to_move += 1
                rebalance.note_move(place, owner, member_id, unowned_ms if owner else NOT_KNOWN)
    group.released = {
        place: (owner, wall_ms if since_ms is None else since_ms)
        for place, (owner, since_ms) in before.items()
    }


def release(group: ClassicGroup, member_id: str, assignment: bytes, since_ms: int) -> None:
    """Note that a member is gone, and since when it does not consume."""
    if group.protocol_type == CONSUMER_TYPE and len(assignment) <= BYTES_FOLLOWED_MAX:
        for place in assigned_places(assignment):
            if len(group.released) < PARTITIONS_FOLLOWED_MAX:
                group.released[place] = (member_id, since_ms)


def _is_small(group: ClassicGroup, assignments: Mapping[str, bytes]) -> bool:
    before = sum(len(member.assignment) for member in group.members.values())
    return max(before, sum(map(len, assignments.values()))) <= BYTES_FOLLOWED_MAX


def _before(group: ClassicGroup, wall_ms: int) -> _Before:
    before: _Before = dict(group.released)
    for member in group.members.values():
        places = assigned_places(member.assignment)
        if places:
            goes_on = owned_places(member.metadata(group.protocol))
            since_ms = wall_ms if member.rejoined_ms is None else member.rejoined_ms
            for place in places:
                before[place] = (member.member_id, None if place in goes_on else since_ms)
    return before
