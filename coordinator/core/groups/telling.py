"""A rebalance as the controller is told of it, and whom it waits for at this moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from coordinator.core.groups.consumer.state import AWAY, ConsumerGroup, Member, MemberState
from coordinator.core.groups.history import ID_CHARS_MAX, CauseKind, NotedRebalance
from coordinator.core.groups.registry import Registry
from coordinator.core.groups.state import ClassicGroup, GroupMember, GroupState
from coordinator.core.topic_partitions import count
from springtide.contract.groups import (
    AWAITED_TOLD_MAX,
    AwaitedStep,
    GroupRebalance,
    MovedPartition,
    MovedPartitions,
    RebalanceCause,
)

#: Whom a rebalance waits for, since when, and what it is to do: told of the first ones only.
_Awaited = tuple[str, int, Callable[[], str]]


def told_of(registry: Registry, rebalance: NotedRebalance) -> GroupRebalance:
    awaited = list(_awaited(registry, rebalance)) if rebalance.is_under_way else []
    told = [AwaitedStep(one[:ID_CHARS_MAX], since, what()) for one, since, what in awaited[:AWAITED_TOLD_MAX]]
    first = next(iter(rebalance.causes), None)
    return GroupRebalance(
        group_id=rebalance.group_id,
        generation_id=rebalance.generation_id,
        began_ms=rebalance.began_ms,
        ended_ms=rebalance.ended_ms,
        reason="" if first is None or first.kind is CauseKind.NOT_KNOWN else first.text,
        is_superseded=rebalance.is_superseded,
        assigned_ms=rebalance.assigned_ms,
        assignor=rebalance.assignor[:ID_CHARS_MAX],
        causes=tuple(
            RebalanceCause(cause.kind.value, cause.text, cause.at_ms, cause.member_id[:ID_CHARS_MAX])
            for cause in rebalance.causes
        ),
        causes_total=rebalance.causes_total,
        to_move=rebalance.to_move,
        moved=rebalance.moved,
        moves=tuple(
            MovedPartitions(
                before,
                after,
                moved.count,
                moved.unowned_ms_max,
                tuple(MovedPartition(*place, unowned_ms) for place, unowned_ms in moved.places),
            )
            for (before, after), moved in rebalance.moves.items()
        ),
        paused=rebalance.paused,
        paused_ms_max=rebalance.paused_ms_max,
        awaited=tuple(told),
        awaited_total=len(awaited),
    )


def _awaited(registry: Registry, rebalance: NotedRebalance) -> Iterator[_Awaited]:
    classic = registry.live.get(rebalance.group_id)
    if classic is not None and classic.state is not GroupState.EMPTY:
        return _of_classic(classic, rebalance)
    group = registry.find_consumers(rebalance.group_id)
    return iter(()) if group is None else _of_consumers(registry, group, rebalance)


def _of_classic(group: ClassicGroup, rebalance: NotedRebalance) -> Iterator[_Awaited]:
    if group.state is GroupState.COMPLETING and group.leader is not None:
        yield (
            group.leader,
            group.changed_ms,
            lambda: "to assign the partitions, as the leader (SyncGroup)",
        )
    elif group.state is GroupState.PREPARING:
        if group.previous_state is GroupState.EMPTY:
            yield (
                "",
                rebalance.began_ms,
                lambda: "more members may join (group.initial.rebalance.delay.ms)",
            )
        for member in group.members.values():
            if member.member_id not in group.joiners:
                yield member.member_id, group.changed_ms, partial(_again, member)
        for member_id in sorted(group.pending):
            yield member_id, group.changed_ms, lambda: "to join with the member id that it got"


def _again(member: GroupMember) -> str:
    return f"to join again (JoinGroup), from host {member.client_host}"


def _of_consumers(registry: Registry, group: ConsumerGroup, rebalance: NotedRebalance) -> Iterator[_Awaited]:
    """Members that have to give partitions up come first: others wait for them."""
    live = registry.consumers.live_group(group.group_id)
    if group.is_due:
        interval = "the next assignment, at most one in group.consumer.assignment.interval.ms"
        what = interval if live.placing is None else "the assignment that is being made"
        yield "", max(rebalance.began_ms, group.target.made_ms), lambda: what
        return
    revoking, members = MemberState.UNREVOKED_PARTITIONS, group.members
    found = [(one, since_ms, members[one]) for one, since_ms in live.unsettled.items() if one in members]
    first = (one for one in found if one[2].current.state == revoking)
    others = (one for one in found if one[2].current.state != revoking)
    for member_id, since_ms, member in chain(first, others):
        yield member_id, since_ms, partial(_to_do, member)


def _to_do(member: Member) -> str:
    current, host = member.current, member.about.client_host
    if current.epoch == AWAY:
        return "to come back, as a static member"
    if current.state == MemberState.UNREVOKED_PARTITIONS:
        return f"to give up {count(current.revoking)} partitions, from host {host}"
    if current.state == MemberState.UNRELEASED_PARTITIONS:
        missing = count(member.target) - count(current.assigned)
        return f"to get {missing} partitions that others had, with its next heartbeat from host {host}"
    return f"to take its new assignment with its next heartbeat, from host {host}"
