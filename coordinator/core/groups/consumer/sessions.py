"""Timers of members: their sessions, and the time that they have to give partitions up, or, with the classic
protocol, for their next step of a rebalance."""

from __future__ import annotations

from coordinator.core.groups.consumer.groups import (
    ConsumerChanged,
    ConsumerSession,
    LiveMember,
    NextStep,
    NextTarget,
    Revocation,
)
from coordinator.core.groups.consumer.state import ConsumerGroup, Member, MemberState
from coordinator.core.groups.registry import Registry, Turn


def keep_alive(registry: Registry, turn: Turn, group_id: str, member_id: str, member: Member) -> None:
    """Let a member's session begin again, of its own timeout if it is of the classic protocol. The timer
    moves only if it would come too late: one that comes too early is set again when it is due, so that a
    heartbeat costs none."""
    members = registry.consumers.live_group(group_id).members
    live = members.get(member_id)
    if live is None:
        live = members[member_id] = LiveMember()
    live.expires_ms = turn.now_ms + session_ms_of(registry, group_id, member)
    if live.timer_ms is None or live.timer_ms > live.expires_ms:
        set_session_timer(turn, group_id, member_id, live)


def session_ms_of(registry: Registry, group_id: str, member: Member) -> int:
    """Return how long a member may be silent."""
    classic = member.about.classic
    return registry.settings_of(group_id).session_ms if classic is None else classic.session_timeout_ms


def set_session_timer(turn: Turn, group_id: str, member_id: str, live: LiveMember) -> None:
    live.timer_ms = live.expires_ms
    turn.timers[ConsumerSession(group_id, member_id)] = live.expires_ms


def watch_revocation(registry: Registry, turn: Turn, group_id: str, member_id: str, member: Member) -> None:
    """Give a member that has partitions to give up its rebalance timeout for it, from now on. One of the
    classic protocol has to send what is next (`watch_next_step`), which shows that they are gone."""
    live = registry.consumers.live_group(group_id).members.setdefault(member_id, LiveMember())
    timer = Revocation(group_id, member_id)
    is_classic = member.about.classic is not None
    if live.has_next_step and not is_classic:
        live.has_next_step = False
        turn.timers[NextStep(group_id, member_id)] = None
    if member.current.state == MemberState.UNREVOKED_PARTITIONS and not is_classic:
        live.revoking_epoch = member.current.epoch
        turn.timers[timer] = turn.now_ms + max(0, member.about.rebalance_timeout_ms)
    elif live.revoking_epoch is not None:
        live.revoking_epoch = None
        turn.timers[timer] = None


def watch_next_step(
    registry: Registry, turn: Turn, group_id: str, member_id: str, rebalance_timeout_ms: int
) -> None:
    """Give a member of the classic protocol its rebalance timeout to join again, or to ask for its assignment
    (SyncGroup), from now on."""
    registry.consumers.live_group(group_id).members.setdefault(member_id, LiveMember()).has_next_step = True
    turn.timers[NextStep(group_id, member_id)] = turn.now_ms + max(0, rebalance_timeout_ms)


def forget_member(registry: Registry, turn: Turn, group_id: str, member_id: str) -> None:
    """Stop the timers of a member that is gone."""
    of_group = registry.consumers.live_group(group_id)
    of_group.who.pop(member_id, None)
    of_group.withheld.discard(member_id)
    live = of_group.members.pop(member_id, None)
    if live is not None:
        turn.timers[ConsumerSession(group_id, member_id)] = None
        turn.timers[Revocation(group_id, member_id)] = None
        turn.timers[NextStep(group_id, member_id)] = None


def watch(registry: Registry, turn: Turn, group: ConsumerGroup) -> None:
    """Let all timers of a group begin anew: its shard was opened here, or a change was taken back."""
    for member_id, member in sorted(group.members.items()):
        keep_alive(registry, turn, group.group_id, member_id, member)
        live = registry.consumers.live_group(group.group_id).members[member_id]
        live.told, live.must_show = None, True
        watch_revocation(registry, turn, group.group_id, member_id, member)
    if group.is_due:
        turn.timers[NextTarget(group.group_id)] = turn.now_ms


def on_changes_written(registry: Registry, turn: Turn, work: ConsumerChanged) -> None:
    """Let the timers of a member that is answered now begin anew: it could do nothing before."""
    group = registry.consumers.store.latest(work.group_id)
    member = None if group is None else group.members.get(work.member_id)
    if member is not None:
        keep_alive(registry, turn, work.group_id, work.member_id, member)
        watch_revocation(registry, turn, work.group_id, work.member_id, member)
        if registry.consumers.live_group(work.group_id).members[work.member_id].has_next_step:
            watch_next_step(registry, turn, work.group_id, work.member_id, member.about.rebalance_timeout_ms)
