"""Members that leave, and members that are given up: those that are silent for a session, and those that keep
partitions, or others waiting, for longer than their rebalance timeout. If only members of the classic
protocol are left, the group goes on with that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.core.groups.consumer import causes
from coordinator.core.groups.consumer.downgrade import downgrade, may_downgrade
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.following import follow_back, note_cause, note_silence
from coordinator.core.groups.consumer.groups import (
    ConsumerSession,
    NextStep,
    NextTarget,
    Revocation,
)
from coordinator.core.groups.consumer.requests import ConsumerHeartbeat
from coordinator.core.groups.consumer.sessions import (
    forget_member,
    keep_alive,
    session_ms_of,
    set_session_timer,
    watch,
)
from coordinator.core.groups.consumer.state import AWAY, ConsumerGroup, Member, MemberState
from coordinator.core.groups.consumer.targets import assign_if_due, write
from coordinator.core.groups.history import GroupCause
from coordinator.core.groups.join import rebalance, resume
from coordinator.core.groups.options import AGAIN_MS_MIN
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.topic_partitions import count, stamp
from springtide.wire.errors import ErrorCode


def leave(registry: Registry, turn: Turn, group: ConsumerGroup, request: ConsumerHeartbeat) -> ErrorCode:
    """Let a member leave. Its epoch does not count: it may not have heard of the last one."""
    member_id = request.member_id
    error = check_seat(group, member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.member_epoch == AWAY:
        draft = GroupDraft(group)
        draft.changed[member_id] = _away(group.members[member_id])
        write(registry, turn, draft, member_id)
    else:
        let_go(registry, turn, group, [causes.left(member_id, group.members[member_id].about)], member_id)
    return ErrorCode.NONE


def check_seat(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another process has the instance."""
    if instance_id is not None:
        owner = group.instances.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if owner != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def _away(member: Member) -> Member:
    """Return a static member that has left for a while. It keeps what it has, but what it was to give up: it
    does not consume any more."""
    current = replace(member.current, epoch=AWAY, assigned=stamp(member.current.assigned, 0), revoking={})
    return member._replace(current=current)


def let_go(
    registry: Registry, turn: Turn, group: ConsumerGroup, gone: Sequence[GroupCause], answered: str = ""
) -> None:
    """Write that members are gone, each for a cause. answered: who is answered with it."""
    draft = GroupDraft(group)
    draft.changed.update(dict.fromkeys(cause.member_id for cause in gone))
    if may_downgrade(registry, draft):
        classic = downgrade(registry, turn, draft)
        rebalance(registry, turn, classic, causes.downgraded(gone[0]))
    else:
        _remove(registry, turn, draft, gone)
        write(registry, turn, draft, answered)


def _remove(registry: Registry, turn: Turn, draft: GroupDraft, gone: Sequence[GroupCause]) -> None:
    """Assign what the members had that the draft takes out."""
    for cause in gone:
        note_cause(registry, turn, draft, cause)
        forget_member(registry, turn, draft.group.group_id, cause.member_id)
    draft.raise_epoch(registry.consumers.hash_of(draft.subscribed()))
    assign_if_due(registry, turn, draft)


def on_consumer_session_timer(registry: Registry, turn: Turn, due: ConsumerSession) -> None:
    """Give a member up that has been silent for its session."""
    live = registry.consumers.live_group(due.group_id).members.get(due.member_id)
    group = registry.consumers.store.latest(due.group_id)
    if live is None or group is None or due.member_id not in group.members:
        return
    if turn.now_ms < live.expires_ms:
        set_session_timer(turn, due.group_id, due.member_id, live)
    elif _must_wait(registry, due.group_id, due.member_id):
        live.timer_ms = None
        keep_alive(registry, turn, due.group_id, due.member_id, group.members[due.member_id])
    else:
        member = group.members[due.member_id]
        session_ms = session_ms_of(registry, due.group_id, member)
        note_silence(registry, turn, due.group_id, due.member_id, session_ms)
        let_go(registry, turn, group, [causes.silent(due.member_id, member.about, session_ms)])


def on_revocation_timer(registry: Registry, turn: Turn, due: Revocation) -> None:
    """Give a member up that has kept partitions for its rebalance timeout: others wait for them."""
    live = registry.consumers.live_group(due.group_id).members.get(due.member_id)
    group = registry.consumers.store.latest(due.group_id)
    member = None if group is None else group.members.get(due.member_id)
    if live is None or group is None or member is None:
        return
    current = member.current
    if (current.state, current.epoch) != (MemberState.UNREVOKED_PARTITIONS, live.revoking_epoch):
        return
    if _must_wait(registry, due.group_id, due.member_id):
        turn.timers[due] = turn.now_ms + max(AGAIN_MS_MIN, member.about.rebalance_timeout_ms)
    else:
        cause = causes.kept_partitions(due.member_id, member.about, count(current.revoking))
        let_go(registry, turn, group, [cause])


def on_next_step_timer(registry: Registry, turn: Turn, due: NextStep) -> None:
    """Give a member of the classic protocol up that has neither joined again nor asked for its assignment
    within its rebalance timeout: others may wait for what it has."""
    group = registry.consumers.store.latest(due.group_id)
    member = None if group is None else group.members.get(due.member_id)
    if group is None or member is None:
        return
    if _must_wait(registry, due.group_id, due.member_id):
        turn.timers[due] = turn.now_ms + max(AGAIN_MS_MIN, member.about.rebalance_timeout_ms)
    else:
        let_go(registry, turn, group, [causes.missed_rebalance(due.member_id, member.about)])


def _must_wait(registry: Registry, group_id: str, member_id: str) -> bool:
    """Return whether a member may be waiting for its answer, or could not have one: no topic is known."""
    return (
        registry.consumers.topics is None
        or registry.consumers.store.is_under_way(group_id, member_id)
        or registry.is_committing(group_id, member_id)
    )


def on_changes_refused(registry: Registry, turn: Turn, group_id: str) -> None:
    """Go on with the group as it was: no member has heard of what was refused. If that had converted the
    group, it is again what its records say, as after a failover."""
    group = registry.consumers.store.latest(group_id)
    live = registry.consumers.live_group(group_id)
    live.targeted_ms, live.placing, live.topics_version = None, None, -1
    live.resolving, live.resolved_version = None, -1
    live.counted.clear()
    for member_id in live.members.keys() - (set() if group is None else group.members.keys()):
        forget_member(registry, turn, group_id, member_id)
    turn.timers[NextTarget(group_id)] = None
    if (classic := registry.live.get(group_id)) is not None:
        registry.evict(turn, classic)
    if group is not None:
        watch(registry, turn, group)
    follow_back(registry, turn, group_id, group)
    if group is None:
        resume(registry, turn, group_id)
