"""JoinGroup, and the rebalance that it, a lost member or a refused write begins (KIP-345, 394, 559, 814).

A rebalance ends when every known member has joined again, or the longest of their rebalance timeouts has
passed; dynamic members that are not back by then are removed, static ones stay until their session ends.
The first rebalance of an empty group waits for more members to come.
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.core.groups import causes
from coordinator.core.groups.explaining import note_cause, note_end, note_generation
from coordinator.core.groups.history import GroupCause
from coordinator.core.groups.options import (
    AGAIN_MS_MIN,
    NEW_MEMBER_TIMEOUT_MS,
    PROTOCOLS_MAX,
    STRING_BYTES_MAX,
)
from coordinator.core.groups.registry import JoinTimer, Registry, SyncTimer, Told, Turn, joined
from coordinator.core.groups.requests import JoinGroup, JoinGroupReply
from coordinator.core.groups.state import CONSUMER_TYPE, ClassicGroup, GroupMember, GroupState
from coordinator.core.groups.subscription import subscribed_topics
from springtide.wire.errors import ErrorCode


def join_group(registry: Registry, turn: Turn, request: JoinGroup) -> None:
    error = check_join(registry, request)
    group = None if error else registry.find(turn, request.group_id)
    if error is ErrorCode.NONE and group is None and request.member_id:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif error is ErrorCode.NONE:
        group = group or registry.new(turn, request.group_id)
        error = _join(registry, turn, group, request)
    if error is not ErrorCode.NONE:
        turn.reply(request.token, JoinGroupReply(error, request.member_id))


def check_join(registry: Registry, request: JoinGroup) -> ErrorCode:
    """Return what is wrong with a JoinGroup whatever its group is."""
    options = registry.options
    if len(request.protocols) > PROTOCOLS_MAX:
        return ErrorCode.POLICY_VIOLATION
    texts = (
        request.new_member_id,
        request.instance_id or "",
        request.client_id,
        request.client_host,
        request.protocol_type,
        *(own.name for own in request.protocols),
    )
    sizes = [len(text.encode()) for text in texts]
    if not request.group_id or len(request.group_id.encode()) > STRING_BYTES_MAX:
        return ErrorCode.INVALID_GROUP_ID
    if not options.session_timeout_ms_min <= request.session_timeout_ms <= options.session_timeout_ms_max:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    member_bytes = sum(sizes) + sum(len(own.metadata) for own in request.protocols)
    if max(sizes) > STRING_BYTES_MAX or member_bytes > options.member_bytes_max:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


def _join(registry: Registry, turn: Turn, group: ClassicGroup, request: JoinGroup) -> ErrorCode:
    known = None if request.instance_id is None else group.instances.get(request.instance_id)
    if not _has_room(registry, group, request.member_id or known or ""):
        if request.member_id in group.members:
            registry.remove(turn, group, request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
            complete_join_if_all_are_back(registry, turn, group)
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not group.supports(request.protocol_type, request.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not registry.has_room_for(request.protocols, group.members.get(request.member_id or known or "")):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if request.member_id:
        return _join_again(registry, turn, group, request)
    if known is not None:
        _take_instance_over(registry, turn, group, request, known)
        return ErrorCode.NONE
    if registry.is_full:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    registry.live[group.group_id] = group
    if request.instance_id is None and request.requires_member_id:
        if len(group.pending) >= registry.options.pending_max:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients look for the coordinator again, and retry
        registry.admit_pending(turn, group, request.new_member_id, request.session_timeout_ms)
        turn.reply(request.token, JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, request.new_member_id))
    else:
        _add(registry, turn, group, request, request.new_member_id)
    return ErrorCode.NONE


def _has_room(registry: Registry, group: ClassicGroup, member_id: str) -> bool:
    """Return whether a member may join. While members come back, the first ones that do are kept: so a group
    that is larger than a lowered limit shrinks to it. A static member that was started again has its old
    one's place (KAFKA-20601)."""
    size_max = registry.options.size_max
    match group.state:
        case GroupState.PREPARING:
            return member_id in group.joiners or len(group.joiners) < size_max
        case GroupState.COMPLETING | GroupState.STABLE:
            return member_id in group.members or len(group.members) < size_max
        case _:
            return True


def _join_again(registry: Registry, turn: Turn, group: ClassicGroup, request: JoinGroup) -> ErrorCode:
    """Let a member with a member id join: one that is pending, or one of the group."""
    member_id = request.member_id
    if member_id in group.pending and request.instance_id is None:
        _add(registry, turn, group, request, member_id)
        return ErrorCode.NONE
    error = group.check_member(member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    member = group.members[member_id]
    is_same = member.protocols == request.protocols
    is_leader = member_id == group.leader
    # The leader may want a rebalance for reasons that are not in its metadata, such as new partitions. In
    # CompletingRebalance it has missed the answer.
    if is_same and (
        group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not is_leader)
    ):
        registry.keep_alive(turn, group, member)
        turn.reply(request.token, joined(group, member_id))
        return ErrorCode.NONE
    now = registry.consumers.existing(group.subscribed() or ())
    cause = causes.rejoined(group, member, request.protocols, {topic.name: topic for topic in now})
    registry.speak(group, member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    registry.park_join(turn, group, member_id, request.token)
    rebalance(registry, turn, group, cause)
    return ErrorCode.NONE


def _add(registry: Registry, turn: Turn, group: ClassicGroup, request: JoinGroup, member_id: str) -> None:
    if not group.members:
        group.protocol_type = request.protocol_type
    member = _member_of(request, member_id)
    member.is_new = True
    registry.admit(turn, group, member, timeout_ms=NEW_MEMBER_TIMEOUT_MS)
    registry.park_join(turn, group, member_id, request.token)
    group.grew = group.state is GroupState.PREPARING
    rebalance(registry, turn, group, causes.joined(member))


def _member_of(request: JoinGroup, member_id: str) -> GroupMember:
    return GroupMember(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )


def _take_instance_over(
    registry: Registry, turn: Turn, group: ClassicGroup, request: JoinGroup, known_id: str
) -> None:
    """Give the seat of a static member to the process that comes with its instance id; the old one is fenced.

    A stable group goes on without a rebalance, if the group's protocol and the topics that the member
    subscribes stay the same. (Kafka compares the protocol's name alone, and so overlooks other topics.) The
    new member id is written before it is told. If that write is refused, the client asks again.
    """
    leader = group.leader
    old = registry.remove(turn, group, known_id, ErrorCode.FENCED_INSTANCE_ID)
    member_id = request.new_member_id
    member = _member_of(request, member_id)
    member.assignment, member.rejoined_ms = old.assignment, old.rejoined_ms
    registry.admit(turn, group, member, timeout_ms=member.session_timeout_ms)
    if leader == known_id:
        group.leader = member_id
    if group.state is GroupState.STABLE and _is_same_subscription(group, old, member):
        reply = joined(group, member_id, with_roster=request.may_skip_assignment)
        if not request.may_skip_assignment:
            # An old client that hears that it leads would assign again: it is told its predecessor's id.
            reply = replace(reply, leader=leader or "")
        turn.reply(request.token, replace(reply, skip_assignment=bool(reply.members)))
        registry.write(turn, group)
        turn.work = Told(group.group_id)
    else:
        registry.park_join(turn, group, member_id, request.token)
        rebalance(registry, turn, group, causes.returned(group, member))


def _is_same_subscription(group: ClassicGroup, old: GroupMember, new: GroupMember) -> bool:
    if group.select_protocol() != group.protocol:
        return False
    before, after = old.metadata(group.protocol), new.metadata(group.protocol)
    return group.protocol_type != CONSUMER_TYPE or subscribed_topics(before) == subscribed_topics(after)


# --- the rebalance ---------------------------------------------------------------------------------


def resume(registry: Registry, turn: Turn, group_id: str) -> None:
    """Let a stored group with members live here. One that is larger than the limit now is rebalanced at once,
    and shrinks; so is one that has no leader: its rebalance was lost with the coordinator (downgrade.py)."""
    stored = registry.store.groups.latest(group_id)
    if stored is None or not stored.members:
        return
    group = ClassicGroup.load(group_id, stored)
    registry.enter(turn, group)
    if len(group.members) > registry.options.size_max:
        rebalance(registry, turn, group, causes.TOO_LARGE)
    elif stored.leader is None:
        rebalance(registry, turn, group, causes.DOWNGRADED)


def rebalance(registry: Registry, turn: Turn, group: ClassicGroup, cause: GroupCause) -> None:
    """Begin a rebalance, or end the present one if all members are back. cause: for people."""
    note_cause(registry, turn, group, cause)
    if group.state is GroupState.PREPARING:
        complete_join_if_all_are_back(registry, turn, group)
        return
    for member in group.members.values():
        if member.member_id in group.syncers:
            registry.keep_alive(turn, group, member)
            registry.answer_sync(turn, group, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    group.unsynced.clear()
    was_empty = group.state is GroupState.EMPTY
    group.begin_rebalance(turn.now_ms, turn.wall_ms)
    if was_empty:
        group.grew = False
        group.delay_left_ms = group.rebalance_timeout_ms
        _delay(registry, turn, group)
    elif group.has_all_joined:
        complete_join(registry, turn, group)
    else:
        turn.timers[JoinTimer(group.group_id)] = turn.now_ms + group.rebalance_timeout_ms


def _delay(registry: Registry, turn: Turn, group: ClassicGroup) -> None:
    delay_ms = min(registry.options.initial_delay_ms, group.delay_left_ms)
    group.delay_left_ms -= delay_ms
    turn.timers[JoinTimer(group.group_id)] = turn.now_ms + delay_ms


def on_join_timer(registry: Registry, turn: Turn, group: ClassicGroup) -> None:
    if group.state is not GroupState.PREPARING:
        return
    if group.previous_state is GroupState.EMPTY and group.grew and group.delay_left_ms > 0:
        group.grew = False
        _delay(registry, turn, group)
    else:
        complete_join(registry, turn, group)


def complete_join_if_all_are_back(registry: Registry, turn: Turn, group: ClassicGroup) -> None:
    """End a rebalance if no member is missing; the first one of an empty group ends only after its delay."""
    is_first = group.previous_state is GroupState.EMPTY
    if group.state is GroupState.PREPARING and not is_first and group.has_all_joined:
        complete_join(registry, turn, group)


def complete_join(registry: Registry, turn: Turn, group: ClassicGroup) -> None:
    """Begin the next generation with those that have joined."""
    turn.timers[JoinTimer(group.group_id)] = None
    absent = [m for m in group.members.values() if m.member_id not in group.joiners and m.instance_id is None]
    for member in absent:
        note_cause(registry, turn, group, causes.absent(group, member))
        registry.remove(turn, group, member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none is back: they have until their sessions end.
        again_ms = max(group.rebalance_timeout_ms, AGAIN_MS_MIN)
        turn.timers[JoinTimer(group.group_id)] = turn.now_ms + again_ms
        return
    group.begin_generation(turn.wall_ms)
    if not group.members:
        group.settling.end(turn.now_ms, is_empty=True)
        note_end(registry, turn, group)
        registry.write(turn, group)
        return
    for member in group.members.values():
        member.is_new = False
        registry.keep_alive(turn, group, member)
        registry.answer_join(turn, group, member.member_id, ErrorCode.NONE)
        group.unsynced[member.member_id] = None
    note_generation(registry, group)
    turn.timers[SyncTimer(group.group_id)] = turn.now_ms + group.rebalance_timeout_ms
