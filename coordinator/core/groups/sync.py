"""SyncGroup: the leader's assignments are written before any member hears of its own.

The record is the only trace of a generation. A member that was told its assignment first would consume
beside the member that the next coordinator assigns the same partition to.
"""

from __future__ import annotations

from coordinator.core.groups import causes
from coordinator.core.groups.explaining import note_assignments
from coordinator.core.groups.join import rebalance
from coordinator.core.groups.registry import Assigned, Registry, Told, Turn, assigned
from coordinator.core.groups.requests import SyncGroup, SyncGroupReply
from coordinator.core.groups.state import ClassicGroup, GroupState
from springtide.wire.errors import ErrorCode


def sync_group(registry: Registry, turn: Turn, request: SyncGroup) -> None:
    error = ErrorCode.INVALID_GROUP_ID
    if request.group_id:
        group = registry.find(turn, request.group_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _sync(registry, turn, group, request)
    if error is not ErrorCode.NONE:
        turn.reply(request.token, SyncGroupReply(error))


def _sync(registry: Registry, turn: Turn, group: ClassicGroup, request: SyncGroup) -> ErrorCode:
    member_id = request.member_id
    error = group.check_generation(member_id, request.instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    registry.keep_alive(turn, group, group.members[member_id])
    if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (
        None,
        group.protocol,
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    group.unsynced.pop(member_id, None)
    if group.state is GroupState.STABLE:
        turn.reply(request.token, assigned(group, member_id))
        turn.waits = registry.store.is_under_way(group.group_id)
        turn.work = Told(group.group_id)
        return ErrorCode.NONE
    registry.park_sync(turn, group, member_id, request.token)
    if member_id == group.leader:
        _assign(registry, turn, group, dict(request.assignments))
    return ErrorCode.NONE


def _assign(registry: Registry, turn: Turn, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Write the leader's assignments, and answer all that wait for theirs once they are committed. A member
    that the leader left out has none."""
    note_assignments(registry, turn, group, assignments)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.become(GroupState.STABLE, turn.wall_ms)
    group.settling.end(turn.now_ms, is_empty=False)
    registry.write(turn, group)
    turn.work = Assigned(group.group_id, group.generation_id)
    for member_id in tuple(group.syncers):
        registry.answer_sync(turn, group, member_id, ErrorCode.NONE)


def on_written(registry: Registry, turn: Turn, group_id: str) -> None:
    """Let the members' sessions begin again: those that have waited for the record are answered now, and
    could send no heartbeat before. The write may have taken a whole session."""
    group = registry.live.get(group_id)
    if group is not None:
        registry.keep_generation_alive(turn, group)


def on_assignments_refused(registry: Registry, turn: Turn, work: Assigned, error: ErrorCode) -> None:
    """Begin a rebalance: the assignments of this generation were not written, and no member has heard of
    them. A group that has gone on since has them written again with its next generation."""
    group = registry.live.get(work.group_id)
    if group is None or group.generation_id != work.generation_id:
        return
    for member in group.members.values():
        member.assignment = b""
    registry.keep_generation_alive(turn, group)
    if group.state is GroupState.STABLE:
        rebalance(registry, turn, group, causes.not_written(error.name))


def on_sync_timer(registry: Registry, turn: Turn, group: ClassicGroup) -> None:
    """Remove the members that have not sent SyncGroup in the time of a rebalance, and begin another."""
    if group.state not in (GroupState.COMPLETING, GroupState.STABLE) or not group.unsynced:
        return
    absent = tuple(group.unsynced)
    cause = causes.not_synced([group.members[member_id] for member_id in absent])
    for member_id in absent:
        registry.remove(turn, group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance(registry, turn, group, cause)
