"""The history of groups of the classic protocol: which event begins, goes on with and ends a rebalance."""

from __future__ import annotations

from coordinator.core.groups import classic_moves
from coordinator.core.groups.history import CauseKind, GroupCause
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.groups.state import ClassicGroup, GroupMember, GroupState


def note_cause(registry: Registry, turn: Turn, group: ClassicGroup, cause: GroupCause) -> None:
    """Note why a group is rebalanced. What comes while its members are awaited is a further cause, unless one
    of these comes back."""
    rebalance = registry.history.under_way(group.group_id)
    if rebalance is None or group.state is not GroupState.PREPARING:
        rebalance = registry.history.begin(group.group_id, group.generation_id, turn.wall_ms)
    elif cause.kind is CauseKind.REJOINED:
        return
    rebalance.note_cause(cause._replace(at_ms=turn.wall_ms))
    registry.history.note(rebalance)


def note_generation(registry: Registry, group: ClassicGroup) -> None:
    """Note that the members are known, and the leader is to assign."""
    rebalance = registry.history.under_way(group.group_id)
    if rebalance is not None:
        rebalance.generation_id = group.generation_id
        registry.history.note(rebalance)


def note_assignments(
    registry: Registry, turn: Turn, group: ClassicGroup, assignments: dict[str, bytes]
) -> None:
    """Note the leader's assignments, before they replace the members' own."""
    topics = registry.consumers.existing(group.subscribed() or ())
    group.assigned_topics = {topic.name: topic for topic in topics}
    if (rebalance := registry.history.under_way(group.group_id)) is not None:
        classic_moves.note_assignments(rebalance, group, assignments, turn.wall_ms)
    for member in group.members.values():
        member.rejoined_ms = None
    note_end(registry, turn, group)


def note_end(registry: Registry, turn: Turn, group: ClassicGroup) -> None:
    rebalance = registry.history.under_way(group.group_id)
    if rebalance is not None:
        rebalance.generation_id = group.generation_id
        registry.history.end(rebalance, turn.wall_ms)


def note_silence(turn: Turn, group: ClassicGroup, member: GroupMember) -> None:
    """Note that a member which was just removed consumed until its last heartbeat, as far as one knows."""
    heard_ms = member.expires_ms - member.session_timeout_ms
    classic_moves.release(group, member.member_id, member.assignment, turn.wall_ms - (turn.now_ms - heard_ms))
