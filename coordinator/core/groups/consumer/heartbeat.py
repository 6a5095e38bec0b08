"""ConsumerGroupHeartbeat: a member joins, says what it subscribes and consumes, and is told what it may.

The checks come in the order of Kafka's: clients tell GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID and
FENCED_MEMBER_EPOCH apart, and end on most others. A member is told of what is written only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from coordinator.core.consumer_group_records import ConsumerMember, CurrentAssignment
from coordinator.core.groups.consumer import causes
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.following import note_cause
from coordinator.core.groups.consumer.groups import ConsumerChanged, LiveMember, Who
from coordinator.core.groups.consumer.leaving import check_seat, leave
from coordinator.core.groups.consumer.patterns import fault_of, resolve_if_due, take_rights
from coordinator.core.groups.consumer.reconcile import Goal, reconcile
from coordinator.core.groups.consumer.requests import (
    JOINING,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from coordinator.core.groups.consumer.sessions import forget_member, keep_alive, watch_revocation
from coordinator.core.groups.consumer.state import AWAY, Member, MemberState
from coordinator.core.groups.consumer.store import bytes_of
from coordinator.core.groups.consumer.targets import assign_if_due, preferred_assignor, write
from coordinator.core.groups.consumer.upgrade import begin, make_way
from coordinator.core.groups.history import GroupCause
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.topic_partitions import PartitionsByTopic, StampedPartitions, by_topic, stamp, without
from springtide.wire.errors import ErrorCode

_STATES = tuple(MemberState)
_NOTHING_SAID = (None,) * 4
_NO_TOPICS = "the coordinator has not heard yet which topics there are"
_SHOW = "the member has to say again what it consumes"


def consumer_heartbeat(registry: Registry, turn: Turn, request: ConsumerHeartbeat) -> None:
    """Answer a heartbeat. Before, its handler asks whether the cluster's level allows CONSUMER_GROUPS
    (UNSUPPORTED_VERSION), for the rights on the group and on each named topic, and for what is wrong with the
    heartbeat alone (checks.py)."""
    if registry.consumers.topics is None:
        reply = ConsumerHeartbeatReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=_NO_TOPICS)
    else:
        reply = _answer(registry, turn, request)
    if reply.error is ErrorCode.GROUP_ID_NOT_FOUND:
        turn.waits = True  # Clients end on it: what has changed the group may still be refused.
    turn.reply(request.token, reply)


def _answer(registry: Registry, turn: Turn, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
    group = registry.find_consumers(request.group_id)
    if group is not None and request.member_epoch < JOINING:
        error = leave(registry, turn, group, request)
        return ConsumerHeartbeatReply(error, request.member_id, request.member_epoch)
    draft = "" if group is None else GroupDraft(group)
    if group is None and request.member_epoch == JOINING:
        draft = begin(registry, turn, request.group_id)
    if isinstance(draft, str):
        return ConsumerHeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, message=draft)
    member_id = request.member_id or request.new_member_id
    error = _take_seat(registry, draft, member_id, request)
    if error is ErrorCode.NONE:
        error = _check_epoch(draft, member_id, request)
    if error is not ErrorCode.NONE:
        return ConsumerHeartbeatReply(error)
    if request.pattern and request.pattern not in draft.group.asked and (fault := fault_of(request.pattern)):
        return ConsumerHeartbeatReply(ErrorCode.INVALID_REGULAR_EXPRESSION, message=fault)
    if _has_to_show(registry, turn, draft, member_id, request):
        return ConsumerHeartbeatReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=_SHOW)
    return _beat(registry, turn, draft, member_id, request)


# --- who it is -------------------------------------------------------------------------------------


def _take_seat(
    registry: Registry, draft: GroupDraft, member_id: str, request: ConsumerHeartbeat
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
    take_over(draft, held_by, member_id)
    return ErrorCode.NONE


def take_over(draft: GroupDraft, held_by: str, member_id: str) -> None:
    """Give what a static member has, and what it is to have, to the process that comes back for it."""
    held = draft.group.members[held_by]
    assigned = stamp(held.current.assigned, 0)
    draft.changed[held_by] = None
    draft.changed[member_id] = held._replace(current=CurrentAssignment(assigned=assigned))


def _check_epoch(draft: GroupDraft, member_id: str, request: ConsumerHeartbeat) -> ErrorCode:
    """Return FENCED_MEMBER_EPOCH for a member that does not know where it stands. The epoch before is right
    as long as the member shows nothing that it does not have: it has not heard of the present one. (Kafka
    wants it to show something. librdkafka repeats what was not answered as it was, mostly without; it would
    give up all that it has because an answer took longer than its heartbeat interval.) In a state of a later
    release a member has to show that it holds nothing."""
    member = draft[member_id]
    assert member is not None
    epoch, current, owned = request.member_epoch, member.current, request.owned
    if current.state not in _STATES and owned != {}:
        return ErrorCode.FENCED_MEMBER_EPOCH
    if epoch in (JOINING, current.epoch):
        return ErrorCode.NONE
    is_before = epoch < current.epoch and epoch == current.previous_epoch
    is_right = is_before and (owned is None or not without(stamp(owned, epoch), current.assigned))
    return ErrorCode.NONE if is_right else ErrorCode.FENCED_MEMBER_EPOCH


def _has_to_show(
    registry: Registry, turn: Turn, draft: GroupDraft, member_id: str, request: ConsumerHeartbeat
) -> bool:
    """Return whether a member has to say again what it consumes; it does after an error that lets it go on.

    What it showed at the epoch before may have come late: it is not believed. It may be all that the member
    has, and then a Java client does not repeat it. (Kafka believes it, and gives to others what a client
    still consumes whose heartbeat came late.) It is asked every other time: that answer may be
    lost, too, and not all clients do so.
    """
    live = registry.consumers.live_group(draft.group.group_id).members.get(member_id)
    member = draft.group.members.get(member_id)
    if live is None or member is None or request.member_epoch != member.current.epoch or not live.must_show:
        return False
    live.must_show = request.owned is None and member.current.state == MemberState.UNREVOKED_PARTITIONS
    live.was_asked = live.must_show and not live.was_asked
    if live.was_asked:
        keep_alive(registry, turn, draft.group.group_id, member_id, member)
    return live.was_asked


# --- what it changes -------------------------------------------------------------------------------


def _beat(
    registry: Registry, turn: Turn, draft: GroupDraft, member_id: str, request: ConsumerHeartbeat
) -> ConsumerHeartbeatReply:
    before = draft[member_id]
    assert before is not None
    # A member at the epoch before has not heard what it was asked to give up, and can't have given it up.
    is_behind = JOINING < request.member_epoch < before.current.epoch
    about, owned = _said(before.about, request), None if is_behind else request.owned
    who = Who(request.principal, request.client_host.removeprefix("/"))
    current = advance(registry, turn, draft, member_id, about, who, owned)
    if current is None:
        return ConsumerHeartbeatReply(ErrorCode.GROUP_MAX_SIZE_REACHED)
    settle(registry, turn, draft, member_id)
    group_id = draft.group.group_id
    live = registry.consumers.live_group(group_id).members[member_id]
    live.must_show |= is_behind
    heartbeat_ms = registry.settings_of(group_id).heartbeat_ms
    return _reply(heartbeat_ms, live, request, member_id, current, is_behind=is_behind)


def advance(
    registry: Registry,
    turn: Turn,
    draft: GroupDraft,
    member_id: str,
    about: ConsumerMember,
    who: Who,
    owned: PartitionsByTopic | None,
) -> CurrentAssignment | None:
    """Let a member be what it says, and bring it nearer to its target; return what it has, None if there is
    no room for what it says. who: it is. owned: see `reconcile`."""
    before = draft[member_id]
    assert before is not None
    if not _has_room(registry, before.about, about):
        return None
    for replaced in [one for one, member in draft.changed.items() if member is None]:
        forget_member(registry, turn, draft.group.group_id, replaced)
    has_changed = (before.about.topics, before.about.pattern) != (about.topics, about.pattern)
    has_changed |= take_rights(registry, draft, member_id, about.pattern, who)
    if about is not before.about:
        draft.changed[member_id] = before._replace(about=about)
    resolve_if_due(registry, turn, draft)
    _raise_epoch(registry, turn, draft, member_id, before.about if has_changed else None)
    assign_if_due(registry, turn, draft)
    member = draft[member_id]
    assert member is not None
    goal = Goal(
        draft.target.epoch,
        member.target,
        lambda: frozenset(one.topic_id for one in registry.consumers.topics_of(draft, member_id, about)),
        has_changed,
        lambda partitions: draft.free_for(member_id, partitions),
    )
    current = reconcile(member.current, goal, owned)
    if current is not member.current:
        draft.changed[member_id] = member._replace(current=current)
    return current


def settle(registry: Registry, turn: Turn, draft: GroupDraft, member_id: str) -> None:
    """Write the draft, of which a member is told, and let the member's timers begin again."""
    group_id, member = draft.group.group_id, draft[member_id]
    assert member is not None
    make_way(registry, turn, draft)
    keep_alive(registry, turn, group_id, member_id, member)
    stored = draft.group.members.get(member_id)
    is_same = stored is not None and stored.current == member.current
    if stored is None or not is_same or stored.about.classic is not None:
        watch_revocation(registry, turn, group_id, member_id, member)
    write(registry, turn, draft, member_id)
    turn.waits = registry.consumers.store.is_under_way(group_id, member_id)
    if turn.waits:
        turn.work = ConsumerChanged(group_id, member_id)


def _said(about: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with what its heartbeat says anew: most say nothing."""
    said = (request.rack_id, request.topics, request.pattern, request.assignor)
    if (
        said == _NOTHING_SAID
        and request.rebalance_timeout_ms == -1
        and (about.client_id, about.client_host, about.classic)
        == (request.client_id, request.client_host, None)
    ):
        return about
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
    more = 0 if after is before else bytes_of(after) - bytes_of(before)
    return more <= 0 or registry.consumers.store.subscription_bytes + more <= registry.options.shard_bytes_max


def _raise_epoch(
    registry: Registry, turn: Turn, draft: GroupDraft, member_id: str, before: ConsumerMember | None
) -> None:
    """Raise the group's epoch, once, if anything changes what has to be assigned. before: the member before
    its subscription changed; None: it did not."""
    consumers, group = registry.consumers, draft.group
    live = consumers.live_group(group.group_id)
    if before is None and draft.is_same and live.topics_version == consumers.topics_version:
        return
    cause = _cause_of(draft, member_id, before)
    topics_hash = group.topics_hash
    if cause is not None or live.topics_version != consumers.topics_version:
        subscribed = draft.subscribed()
        topics_hash = consumers.hash_of(subscribed)
        live.topics_version = consumers.topics_version
        if cause is None and topics_hash != group.topics_hash:
            now = {topic.name: topic for topic in consumers.existing(subscribed)}
            cause = causes.changed_topics(live.assigned_topics, now)
    if cause is None:
        cause = _other_assignor(registry, draft, member_id)
    if cause is not None:
        note_cause(registry, turn, draft, cause)
        draft.raise_epoch(topics_hash)


def _cause_of(draft: GroupDraft, member_id: str, before: ConsumerMember | None) -> GroupCause | None:
    """Return what the member has done if it has to be assigned anew."""
    member = draft[member_id]
    assert member is not None
    if draft.converted:
        return causes.upgraded(member_id, member.about)
    has_returned = any(one is None for one in draft.changed.values())
    if member_id not in draft.group.members and not has_returned:
        return causes.joined(member_id, member.about)
    if before is None:
        return None
    if has_returned:
        return causes.returned(member_id, member.about)
    return causes.subscribed(member_id, before, member.about)


def _other_assignor(registry: Registry, draft: GroupDraft, member_id: str) -> GroupCause | None:
    """Return the cause if most members ask for another assignor than before."""
    before, after = draft.group.members.get(member_id), draft[member_id]
    assert after is not None
    if before is not None and before.about.assignor == after.about.assignor:
        return None
    names = registry.options.assignors
    name = preferred_assignor(draft.members(), names)
    is_same = name == preferred_assignor(draft.group.members, names)
    return None if is_same else causes.prefers(member_id, after.about, name)


def _reply(
    heartbeat_ms: int,
    live: LiveMember,
    request: ConsumerHeartbeat,
    member_id: str,
    current: CurrentAssignment,
    *,
    is_behind: bool,
) -> ConsumerHeartbeatReply:
    """Tell the member what it has if that has changed since it was told, if the member asks for it, or shows
    something else. The answer may be lost: what changed at an epoch that the member knows already is told
    until it shows that it has heard. (Kafka tells it once. librdkafka repeats a heartbeat without an answer
    as it was, and nobody would read what only that answer gave.) An answer to a heartbeat at the epoch before
    may be one to a repeat, which is not read."""
    has, shown = current.assigned, request.owned
    is_asked = is_behind or request.is_full or request.member_epoch == JOINING
    is_same = _are_same(live.told if shown is None else shown, has)
    is_news = not is_same or (shown is None and live.must_hear)
    if not is_behind:
        live.must_hear = is_news and request.member_epoch == current.epoch
        live.told = has
    is_told = is_asked or is_news
    return ConsumerHeartbeatReply(
        ErrorCode.NONE,
        member_id,
        current.epoch,
        heartbeat_ms,
        by_topic(has.items()) if is_told else None,
    )


def _are_same(one: Mapping[UUID, Iterable[int]] | None, other: StampedPartitions) -> bool:
    return one is other or (
        one is not None
        and one.keys() == other.keys()
        and all(own.keys() == {*one[topic_id]} for topic_id, own in other.items())
    )
