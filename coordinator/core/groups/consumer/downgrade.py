"""A group of the `consumer` protocol becomes one of the classic protocol: it has members of that only.

Its generation is the group's epoch. If the members have come to their target, which is not due, that is what
each is assigned. Else a rebalance follows, and until it is over the record names no leader, and says what
each member may still consume: the group can be converted again before. (Kafka writes the target.) A
coordinator that finds such a record begins the rebalance anew (`join.resume`); without it the partitions of
the member that is gone would wait for the next change of the group. (In Kafka they do, after a failover.)
"""

from __future__ import annotations

from coordinator.core.consumer_group_records import ConsumerMember
from coordinator.core.groups.classic_moves import release
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.following import held_by
from coordinator.core.groups.consumer.groups import ConsumerChanged, NextTarget
from coordinator.core.groups.consumer.sessions import forget_member
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.groups.requests import JoinProtocol
from coordinator.core.groups.state import CONSUMER_TYPE, ClassicGroup, GroupMember, GroupState
from coordinator.core.groups.subscription import read_subscription, write_assignment
from coordinator.core.topic_partitions import merged


def may_downgrade(registry: Registry, draft: GroupDraft) -> bool:
    """Return whether the members that the draft has may go on with the classic protocol: they all speak
    it."""
    members, options = draft.members().values(), registry.options
    is_allowed = options.migration_policy.may_downgrade and 0 < len(members) <= options.size_max
    return is_allowed and all(member.about.classic is not None for member in members)


def is_calm(draft: GroupDraft) -> bool:
    """Return whether each member has its part of a target that is not due."""
    epoch = draft.target.epoch
    return epoch == draft.epoch and all(member.is_settled(epoch) for member in draft.members().values())


def downgrade(registry: Registry, turn: Turn, draft: GroupDraft, leader: str | None = None) -> ClassicGroup:
    """Return the group, which lives here from now on. leader: None where the caller begins a rebalance."""
    group_id, consumers = draft.group.group_id, registry.consumers
    group = ClassicGroup(group_id, changed_ms=turn.wall_ms)
    group.state, group.protocol_type = GroupState.STABLE, CONSUMER_TYPE
    group.generation_id = draft.epoch
    members = sorted(draft.members().items())
    for member_id, member in members:
        group.add(_member(member_id, member.about))
    group.protocol, group.leader = group.select_protocol(), leader
    for member_id, member in members:
        classic = group.members[member_id]
        subscription = read_subscription(classic.metadata(group.protocol))
        version = 0 if subscription is None else subscription.version
        has = merged(member.current.assigned, member.current.revoking)
        classic.assignment = write_assignment(consumers.names_of(has), version)
    for member_id in draft.group.members.keys() - draft.members().keys():
        has = held_by(draft.group.members[member_id])
        release(group, member_id, write_assignment(consumers.names_of(has), 0), turn.wall_ms)
    for member_id in tuple(consumers.live_group(group_id).members):
        forget_member(registry, turn, group_id, member_id)
    consumers.live.pop(group_id, None)
    turn.timers[NextTarget(group_id)] = None
    registry.enter(turn, group)
    registry.write(turn, group)
    turn.work = ConsumerChanged(group_id)
    return group


def _member(member_id: str, about: ConsumerMember) -> GroupMember:
    assert about.classic is not None
    return GroupMember(
        member_id=member_id,
        instance_id=about.instance_id,
        client_id=about.client_id,
        client_host=about.client_host,
        rebalance_timeout_ms=about.rebalance_timeout_ms,
        session_timeout_ms=about.classic.session_timeout_ms,
        protocols=tuple(JoinProtocol(*one) for one in about.classic.protocols),
    )
