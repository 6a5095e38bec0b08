"""Members of the classic protocol in a group of the `consumer` protocol: the coordinator assigns for them,
too.

What a heartbeat of the other protocol does at once takes a small rebalance of their own: Heartbeat tells them
to join again, JoinGroup says what they subscribe and still consume and is answered at once, SyncGroup tells
them what they have. Their generation is their epoch, and none of them leads.

                REBALANCE_IN_PROGRESS                    the epoch             what they have
    Heartbeat ──────────────────────────▶ JoinGroup ──────────────▶ SyncGroup ────────────────▶ Heartbeat
                     within the rebalance timeout    within it again
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.core.consumer_group_records import ClassicMember, ConsumerMember
from coordinator.core.groups.consumer import causes
from coordinator.core.groups.consumer.downgrade import downgrade, is_calm, may_downgrade
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.groups import ConsumerChanged, LiveMember, NextStep, Who
from coordinator.core.groups.consumer.heartbeat import advance, settle, take_over
from coordinator.core.groups.consumer.leaving import check_seat, let_go
from coordinator.core.groups.consumer.sessions import keep_alive, watch_next_step
from coordinator.core.groups.consumer.state import ConsumerGroup, Member, MemberState
from coordinator.core.groups.explaining import note_end
from coordinator.core.groups.history import GroupCause
from coordinator.core.groups.join import check_join, rebalance
from coordinator.core.groups.options import MigrationPolicy
from coordinator.core.groups.registry import Registry, Turn, joined
from coordinator.core.groups.requests import (
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    MemberHeartbeat,
    MemberHeartbeatReply,
    SyncGroup,
    SyncGroupReply,
)
from coordinator.core.groups.state import CONSUMER_TYPE
from coordinator.core.groups.subscription import Subscription, read_subscription, write_assignment
from coordinator.core.topic_partitions import stamp, without
from springtide.wire.errors import ErrorCode

# --- JoinGroup -------------------------------------------------------------------------------------


def join(registry: Registry, turn: Turn, request: JoinGroup, group: ConsumerGroup) -> None:
    error = check_join(registry, request) or _check_seat(registry, group, request)
    subscription = read_subscription(request.protocols[0].metadata) if request.protocols else None
    if error is ErrorCode.NONE and (subscription is None or not _fits(registry, group, request)):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_new = not request.member_id and request.instance_id is None
    if error is ErrorCode.NONE and is_new and request.requires_member_id:
        error = ErrorCode.MEMBER_ID_REQUIRED
    member_id = request.member_id or request.new_member_id
    if error is ErrorCode.NONE and subscription is not None:
        error = _join(registry, turn, GroupDraft(group), member_id, request, subscription)
    if error is not ErrorCode.NONE:
        turn.reply(request.token, JoinGroupReply(error, member_id))


def _check_seat(registry: Registry, group: ConsumerGroup, request: JoinGroup) -> ErrorCode:
    """Return why there is no seat for a member. One that comes with an instance id and without a member id
    takes the instance over, whatever protocol its holder speaks (KIP-345). A member id alone is taken as it
    is: that of MEMBER_ID_REQUIRED is kept nowhere."""
    if registry.consumers.topics is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    held_by = None if request.instance_id is None else group.instances.get(request.instance_id)
    if held_by is not None:
        is_fenced = request.member_id not in ("", held_by)
        return ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.NONE
    is_full = len(group.members) >= registry.options.consumer_size_max or registry.is_full
    if is_full and request.member_id not in group.members:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return ErrorCode.NONE


def _fits(registry: Registry, group: ConsumerGroup, request: JoinGroup) -> bool:
    """Return whether a member may join: migration is on, and all others of its kind speak one of its
    protocols, which they need when the group goes back to theirs."""
    is_off = registry.options.migration_policy is MigrationPolicy.DISABLED
    if is_off or request.protocol_type != CONSUMER_TYPE:
        return False
    common = {own.name for own in request.protocols}
    replaced = (request.member_id, group.instances.get(request.instance_id or ""))
    for member_id, member in group.members.items():
        if member.about.classic is not None and member_id not in replaced:
            common.intersection_update(name for name, _ in member.about.classic.protocols)
    return bool(common)


def _join(
    registry: Registry,
    turn: Turn,
    draft: GroupDraft,
    member_id: str,
    request: JoinGroup,
    said: Subscription,
) -> ErrorCode:
    group = draft.group
    held_by = None if request.instance_id is None else group.instances.get(request.instance_id)
    if held_by not in (None, member_id):
        take_over(draft, held_by, member_id)
    elif member_id not in group.members:
        draft.changed[member_id] = Member(ConsumerMember())
    before = draft[member_id]
    assert before is not None
    about = ConsumerMember(
        instance_id=before.about.instance_id if request.instance_id is None else request.instance_id,
        rack_id=said.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=tuple(sorted(said.topics)),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMember(request.session_timeout_ms, request.protocols),
    )
    owned = registry.consumers.ids_of(said.owned)
    nobody = Who("", "")  # such a member subscribes no pattern
    current = advance(registry, turn, draft, member_id, about, nobody, owned)
    if current is None:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if may_downgrade(registry, draft):
        _join_the_last(registry, turn, draft, member_id, request)
        return ErrorCode.NONE
    settle(registry, turn, draft, member_id)
    watch_next_step(registry, turn, group.group_id, member_id, about.rebalance_timeout_ms)
    protocol = request.protocols[0].name
    reply = JoinGroupReply(ErrorCode.NONE, member_id, current.epoch, CONSUMER_TYPE, protocol)
    turn.reply(request.token, reply)
    return ErrorCode.NONE


def _join_the_last(
    registry: Registry, turn: Turn, draft: GroupDraft, member_id: str, request: JoinGroup
) -> None:
    """Let a member join that took the instance of the last one of the other protocol: the group goes on with
    the classic protocol. There is no rebalance if each member has its part of the target, and the member can
    be told that it leads and has nothing to assign (KIP-814): without a leader that knows of it no client
    looks for new partitions."""
    if is_calm(draft) and request.may_skip_assignment:
        classic = downgrade(registry, turn, draft, leader=member_id)
        note_end(registry, turn, classic)
        turn.reply(request.token, replace(joined(classic, member_id), skip_assignment=True))
    else:
        classic = downgrade(registry, turn, draft)
        registry.park_join(turn, classic, member_id, request.token)
        cause = causes.changed_protocol(member_id, draft.members()[member_id].about)
        rebalance(registry, turn, classic, causes.downgraded(cause))


# --- what follows ----------------------------------------------------------------------------------


def sync(registry: Registry, turn: Turn, request: SyncGroup, group: ConsumerGroup) -> None:
    """Tell a member what it has: of its target only what no other member may still consume."""
    member, error = _find(group, request.member_id, request.instance_id, request.generation_id)
    reply = SyncGroupReply(error)
    if member is not None and error is ErrorCode.NONE:
        reply = _assigned(registry, turn, request, group, member)
    turn.reply(request.token, reply)


def _assigned(
    registry: Registry, turn: Turn, request: SyncGroup, group: ConsumerGroup, member: Member
) -> SyncGroupReply:
    assert member.about.classic is not None
    current, (protocol, metadata) = member.current, member.about.classic.protocols[0]
    keep_alive(registry, turn, group.group_id, request.member_id, member)
    is_outdated = group.target.epoch > current.epoch and current.state != MemberState.UNREVOKED_PARTITIONS
    if is_outdated or registry.consumers.topics is None:
        _call(registry, turn, group.group_id, request.member_id, member)
        return SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS)
    # After the check above: a member that joined before its group was converted may name another protocol.
    if request.protocol_type not in (None, CONSUMER_TYPE) or request.protocol not in (None, protocol):
        return SyncGroupReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    registry.consumers.live_group(group.group_id).members[request.member_id].has_next_step = False
    turn.timers[NextStep(group.group_id, request.member_id)] = None
    turn.waits = registry.consumers.store.is_under_way(group.group_id, request.member_id)
    turn.work = ConsumerChanged(group.group_id, request.member_id)
    subscription = read_subscription(metadata)
    version = 0 if subscription is None else subscription.version
    assignment = write_assignment(registry.consumers.names_of(current.assigned), version)
    return SyncGroupReply(ErrorCode.NONE, CONSUMER_TYPE, protocol, assignment)


def heartbeat(registry: Registry, turn: Turn, request: MemberHeartbeat, group: ConsumerGroup) -> None:
    """Tell a member to join again if that brings it nearer to its target: not before there is a newer one
    (KAFKA-20272), and not as long as others have what it waits for."""
    member, error = _find(group, request.member_id, request.instance_id, request.generation_id)
    if member is not None and error is ErrorCode.NONE:
        keep_alive(registry, turn, group.group_id, request.member_id, member)
        if _can_go_on(group, request.member_id, member):
            _call(registry, turn, group.group_id, request.member_id, member)
            error = ErrorCode.REBALANCE_IN_PROGRESS
    turn.reply(request.token, MemberHeartbeatReply(error))


def _can_go_on(group: ConsumerGroup, member_id: str, member: Member) -> bool:
    current = member.current
    if current.epoch < group.target.epoch or current.state == MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state != MemberState.UNRELEASED_PARTITIONS:
        return False
    wanted = without(stamp(member.target, current.epoch), current.assigned)
    return GroupDraft(group).free_for(member_id, wanted) == wanted


def _call(registry: Registry, turn: Turn, group_id: str, member_id: str, member: Member) -> None:
    """Give a member its rebalance timeout to join again, from the first time on that it is told to."""
    live = registry.consumers.live_group(group_id).members.setdefault(member_id, LiveMember())
    if not live.has_next_step:
        watch_next_step(registry, turn, group_id, member_id, member.about.rebalance_timeout_ms)


def _find(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[Member | None, ErrorCode]:
    error = check_seat(group, member_id, instance_id)
    member = group.members.get(member_id)
    if error is ErrorCode.NONE and (member is None or member.about.classic is None):
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif error is ErrorCode.NONE and member is not None and member.current.epoch != generation_id:
        error = ErrorCode.ILLEGAL_GENERATION
    return member, error


def leave(registry: Registry, turn: Turn, request: LeaveGroup, group: ConsumerGroup) -> None:
    """Let members of either protocol leave, or an operator remove them."""
    if registry.consumers.topics is None:
        turn.reply(request.token, LeaveGroupReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    gone: dict[str, GroupCause] = {}
    errors = []
    for leaver in request.leavers:
        member_id = leaver.member_id
        if not member_id and leaver.instance_id is not None:
            member_id = group.instances.get(leaver.instance_id, "")
        error = check_seat(group, member_id, leaver.instance_id)
        errors.append((leaver, error))
        if error is ErrorCode.NONE:
            gone[member_id] = causes.left(member_id, group.members[member_id].about)
    if gone:
        let_go(registry, turn, group, tuple(gone.values()))
    turn.reply(request.token, LeaveGroupReply(ErrorCode.NONE, tuple(errors)))
