"""ConsumerGroupHeartbeat: a member joins, says what it subscribes and consumes, and is told what it may.

The checks come in the order of Kafka's: clients tell GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID and
FENCED_MEMBER_EPOCH apart, and end on most others. A member is told of what is written only.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from coordinator.core.consumer_group_records import ConsumerMember, CurrentAssignment, Partitions
from coordinator.core.groups.consumer.causes import CauseKind
from coordinator.core.groups.consumer.checks import refusal_of
from coordinator.core.groups.consumer.draft import Draft
from coordinator.core.groups.consumer.groups import ConsumerChanged, LiveMember
from coordinator.core.groups.consumer.leaving import check_seat, leave
from coordinator.core.groups.consumer.reconcile import Goal, reconcile
from coordinator.core.groups.consumer.requests import (
    JOINING,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from coordinator.core.groups.consumer.sessions import forget_member, keep_alive, watch_revocation
from coordinator.core.groups.consumer.state import AWAY, Member, MemberState
from coordinator.core.groups.consumer.store import bytes_of
from coordinator.core.groups.consumer.targets import assign_if_due, note, preferred_assignor, write
from coordinator.core.groups.consumer.upgrade import begin, make_way
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.registry import Registry, Turn
from springtide.wire.errors import ErrorCode


def consumer_heartbeat(registry: Registry, turn: Turn, request: ConsumerHeartbeat) -> None:
    """Answer a heartbeat. Before, its handler asks whether the cluster's level allows CONSUMER_GROUPS
    (UNSUPPORTED_VERSION), and for the rights on the group and on each named topic."""
    refusal = refusal_of(request, registry.options)
    if refusal is not None:
        reply = ConsumerHeartbeatReply(refusal.error, message=refusal.message)
    elif registry.consumers.topics is None:
        reply = ConsumerHeartbeatReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    else:
        reply = _answer(registry, turn, request)
    turn.reply(request.token, reply)


def _answer(registry: Registry, turn: Turn, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
    group = registry.find_consumers(request.group_id)
    if group is not None and request.member_epoch < JOINING:
        error = leave(registry, turn, group, request)
        return ConsumerHeartbeatReply(error, request.member_id, request.member_epoch)
    draft = None if group is None else Draft(group)
    if group is None and request.member_epoch == JOINING:
        draft = begin(registry, turn, request.group_id)
    if draft is None:
        return ConsumerHeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND)
    member_id = request.member_id or request.new_member_id
    error = _take_seat(registry, turn, draft, member_id, request)
    if error is ErrorCode.NONE:
        error = _check_epoch(draft, member_id, request)
    if error is not ErrorCode.NONE:
        return ConsumerHeartbeatReply(error)
    return _beat(registry, turn, draft, member_id, request)


# --- who it is -------------------------------------------------------------------------------------


def _take_seat(
    registry: Registry, turn: Turn, draft: Draft, member_id: str, request: ConsumerHeartbeat
) -> ErrorCode:
    """Find the member of the heartbeat, or let it join: as a new one, or in the place of the process that had
    its instance before. One of the classic protocol need not have left: it can't (KAFKA-17228)."""
    group, instance_id = draft.group, request.instance_id
    if request.member_epoch != JOINING:
        return check_seat(group, member_id, instance_id)
    held_by = None if instance_id is None else group.instances.get(instance_id)
    if member_id in group.members:
        return ErrorCode.NONE if held_by in (None, member_id) else ErrorCode.UNRELEASED_INSTANCE_ID
    if held_by is None:
        if len(group.members) >= registry.options.consumer_size_max or registry.is_full:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        draft.changed[member_id] = Member(ConsumerMember(instance_id=instance_id))
        return ErrorCode.NONE
    held = group.members[held_by]
    if held.current.epoch != AWAY and held.about.classic is None:
        return ErrorCode.UNRELEASED_INSTANCE_ID
    take_over(registry, turn, draft, held_by, member_id)
    return ErrorCode.NONE


def take_over(registry: Registry, turn: Turn, draft: Draft, held_by: str, member_id: str) -> None:
    """Give what a static member has, and what it is to have, to the process that comes back for it."""
    held = draft.group.members[held_by]
    assigned = dict.fromkeys(held.current.assigned, 0)
    draft.changed[held_by] = None
    draft.changed[member_id] = held._replace(current=CurrentAssignment(assigned=assigned))
    forget_member(registry, turn, draft.group.group_id, held_by)


def _check_epoch(draft: Draft, member_id: str, request: ConsumerHeartbeat) -> ErrorCode:
    """Return FENCED_MEMBER_EPOCH for a member that does not know where it stands. The epoch before is right
    as long as the member shows nothing that it does not have: it has not heard of the present one. In a state
    of a later release a member has to show that it holds nothing."""
    member = draft[member_id]
    assert member is not None
    epoch, current, owned = request.member_epoch, member.current, request.owned
    if current.state not in tuple(MemberState) and owned != frozenset():
        return ErrorCode.FENCED_MEMBER_EPOCH
    if epoch in (JOINING, current.epoch):
        return ErrorCode.NONE
    is_before = epoch < current.epoch and epoch == current.previous_epoch
    is_right = is_before and owned is not None and owned <= current.assigned.keys()
    return ErrorCode.NONE if is_right else ErrorCode.FENCED_MEMBER_EPOCH


# --- what it changes -------------------------------------------------------------------------------


def _beat(
    registry: Registry, turn: Turn, draft: Draft, member_id: str, request: ConsumerHeartbeat
) -> ConsumerHeartbeatReply:
    before = draft[member_id]
    assert before is not None
    # A member at the epoch before has not heard what it was asked to give up, and can't have given it up.
    is_behind = JOINING < request.member_epoch < before.current.epoch
    about, owned = _said(before.about, request), None if is_behind else request.owned
    current = advance(registry, turn, draft, member_id, about, owned)
    if current is None:
        return ConsumerHeartbeatReply(ErrorCode.GROUP_MAX_SIZE_REACHED)
    settle(registry, turn, draft, member_id)
    live = registry.consumers.live_group(draft.group.group_id).members[member_id]
    return _reply(registry.options, live, request, member_id, current, is_behind=is_behind)


def advance(
    registry: Registry,
    turn: Turn,
    draft: Draft,
    member_id: str,
    about: ConsumerMember,
    owned: Partitions | None,
) -> CurrentAssignment | None:
    """Let a member be what it says, and bring it nearer to its target; return what it has, None if there is
    no room for what it says. owned: see `reconcile`."""
    before = draft[member_id]
    assert before is not None
    if not _has_room(registry, before.about, about):
        return None
    has_changed = (before.about.topics, before.about.pattern) != (about.topics, about.pattern)
    draft.changed[member_id] = before._replace(about=about)
    _raise_epoch(registry, turn, draft, member_id, has_changed=has_changed)
    assign_if_due(registry, turn, draft)
    member = draft[member_id]
    assert member is not None
    goal = Goal(
        draft.target.epoch,
        member.target,
        _topic_ids(registry, draft, about),
        has_changed,
        lambda partition: draft.is_free_for(member_id, partition),
    )
    current = reconcile(member.current, goal, owned)
    draft.changed[member_id] = member._replace(current=current)
    return current


def settle(registry: Registry, turn: Turn, draft: Draft, member_id: str) -> None:
    """Write the draft, of which a member is told, and let the member's timers begin again."""
    group_id, member = draft.group.group_id, draft[member_id]
    assert member is not None
    make_way(registry, turn, draft)
    keep_alive(registry, turn, group_id, member_id, member)
    stored = draft.group.members.get(member_id)
    is_same = stored is not None and stored.current == member.current
    if stored is None or not is_same or stored.about.classic is not None:
        watch_revocation(registry, turn, group_id, member_id, member)
    write(turn, draft, member_id)
    turn.waits = registry.consumers.store.is_under_way(group_id, member_id)
    if turn.waits:
        turn.work = ConsumerChanged(group_id, member_id)


def _said(about: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with what its heartbeat says anew."""
    return replace(
        about,
        rack_id=about.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=about.topics if request.topics is None else tuple(sorted(set(request.topics))),
        pattern=about.pattern if request.pattern is None else request.pattern or None,
        assignor=about.assignor if request.assignor is None else request.assignor,
        classic=None,
        rebalance_timeout_ms=(
            about.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
    )


def _has_room(registry: Registry, before: ConsumerMember, after: ConsumerMember) -> bool:
    more = bytes_of(after) - bytes_of(before)
    return more <= 0 or registry.consumers.store.subscription_bytes + more <= registry.options.shard_bytes_max


def _raise_epoch(registry: Registry, turn: Turn, draft: Draft, member_id: str, *, has_changed: bool) -> None:
    """Raise the group's epoch, once, if anything changes what has to be assigned."""
    consumers, group = registry.consumers, draft.group
    live = consumers.live_group(group.group_id)
    returned = any(member is None for member in draft.changed.values())
    is_new = member_id not in group.members and not returned
    kinds = []
    if is_new or has_changed or draft.converted:
        joined = CauseKind.RETURNED if returned else CauseKind.JOINED
        kinds.append(CauseKind.SUBSCRIPTION if member_id in group.members else joined)
    topics_hash = group.topics_hash
    if kinds or live.topics_version != consumers.topics_version:
        topics_hash = consumers.hash_of(draft.subscribed())
        live.topics_version = consumers.topics_version
        if not kinds and topics_hash != group.topics_hash:
            kinds.append(CauseKind.TOPICS)
    if not kinds and _has_other_assignor(registry, draft, member_id):
        kinds.append(CauseKind.ASSIGNOR)
    if kinds:
        (kind,) = kinds
        note(registry, turn, draft, kind, "" if kind is CauseKind.TOPICS else member_id)
        draft.raise_epoch(topics_hash)


def _has_other_assignor(registry: Registry, draft: Draft, member_id: str) -> bool:
    """Return whether the assignor that most members ask for has changed."""
    before, after = draft.group.members.get(member_id), draft[member_id]
    if before is not None and after is not None and before.about.assignor == after.about.assignor:
        return False
    names = registry.options.assignors
    return preferred_assignor(draft.group.members, names) != preferred_assignor(draft.members(), names)


def _topic_ids(registry: Registry, draft: Draft, about: ConsumerMember) -> frozenset[UUID]:
    existing = registry.consumers.existing(draft.group.topics_of(about))
    return frozenset(topic.topic_id for topic in existing)


def _reply(
    options: GroupOptions,
    live: LiveMember,
    request: ConsumerHeartbeat,
    member_id: str,
    current: CurrentAssignment,
    *,
    is_behind: bool,
) -> ConsumerHeartbeatReply:
    """Tell the member what it has if that has changed since it was told, if the member asks for it, or shows
    something else. An answer to a heartbeat at the epoch before may be one to a repeat, which is not read."""
    has = frozenset(current.assigned)
    is_asked = is_behind or request.is_full or request.member_epoch == JOINING
    is_told = is_asked or live.told != has or request.owned not in (None, has)
    if not is_behind:
        live.told = has
    return ConsumerHeartbeatReply(
        ErrorCode.NONE,
        member_id,
        current.epoch,
        options.consumer_heartbeat_ms,
        has if is_told else None,
    )
