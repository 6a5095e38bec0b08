"""Heartbeats, members that leave, and members whose session ends."""

from __future__ import annotations

from coordinator.core.groups import causes
from coordinator.core.groups.explaining import note_silence
from coordinator.core.groups.history import GroupCause
from coordinator.core.groups.join import complete_join_if_all_are_back, rebalance
from coordinator.core.groups.registry import Registry, SessionTimer, Turn
from coordinator.core.groups.requests import (
    LeaveGroup,
    LeaveGroupReply,
    Leaver,
    MemberHeartbeat,
    MemberHeartbeatReply,
)
from coordinator.core.groups.state import ClassicGroup, GroupState
from springtide.wire.errors import ErrorCode


def heartbeat(registry: Registry, turn: Turn, request: MemberHeartbeat) -> None:
    turn.reply(request.token, MemberHeartbeatReply(_heartbeat(registry, turn, request)))


def _heartbeat(registry: Registry, turn: Turn, request: MemberHeartbeat) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = registry.find(turn, request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_generation(request.member_id, request.instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    registry.keep_alive(turn, group, group.members[request.member_id])
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE


def leave_group(registry: Registry, turn: Turn, request: LeaveGroup) -> None:
    if not request.group_id:
        turn.reply(request.token, LeaveGroupReply(ErrorCode.INVALID_GROUP_ID))
        return
    group = registry.find(turn, request.group_id)
    if group is None:
        errors = tuple((leaver, ErrorCode.UNKNOWN_MEMBER_ID) for leaver in request.leavers)
    else:
        before = tuple(group.members.values())
        errors = tuple((leaver, _leave(registry, turn, group, leaver)) for leaver in request.leavers)
        gone = [member for member in before if member.member_id not in group.members]
        _after_loss(registry, turn, group, causes.left(gone) if gone else None)
    turn.reply(request.token, LeaveGroupReply(ErrorCode.NONE, errors))


def _leave(registry: Registry, turn: Turn, group: ClassicGroup, leaver: Leaver) -> ErrorCode:
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.instances.get(leaver.instance_id, "")
    if member_id in group.pending:
        registry.remove_pending(turn, group, member_id)
        return ErrorCode.NONE
    error = group.check_member(member_id, leaver.instance_id)
    if error is ErrorCode.NONE:
        registry.remove(turn, group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    return error


def on_session_timer(registry: Registry, turn: Turn, group: ClassicGroup, due: SessionTimer) -> None:
    """Remove a member that has been silent for its session. A member whose request is parked here is not
    silent (but a new one may not wait for ever), and neither is one that may wait for the group's record or
    its own commit to be written."""
    member = group.members.get(due.member_id)
    cause = None
    if due.member_id in group.pending:
        registry.remove_pending(turn, group, due.member_id)
    elif member is None:
        return
    elif turn.now_ms < member.expires_ms:
        registry.set_session_timer(turn, group, member)
        return
    elif not member.is_new and (due.member_id in group.joiners or due.member_id in group.syncers):
        member.timer_ms = None  # set again when the request is answered
        return
    elif registry.store.is_under_way(group.group_id) or registry.is_committing(group.group_id, due.member_id):
        member.timer_ms = None
        registry.keep_alive(turn, group, member)
        return
    else:
        registry.remove(turn, group, due.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        note_silence(turn, group, member)
        cause = causes.silent(member)
    _after_loss(registry, turn, group, cause)


def _after_loss(registry: Registry, turn: Turn, group: ClassicGroup, cause: GroupCause | None) -> None:
    """Begin a rebalance because members were lost; without a cause only pending members are gone, and the
    others may now be complete."""
    if cause is not None:
        rebalance(registry, turn, group, cause)
    else:
        complete_join_if_all_are_back(registry, turn, group)
    registry.forget(group)
