"""A group of the classic protocol becomes one of the `consumer` protocol: its first member of that is here.

The members stay, as classic ones, at an epoch that is the generation. Each has what it was last assigned.
What it said beside, when it last joined, that it still consumes, it has to give up: one that rebalances
cooperatively may not have heard yet that it has to. (Kafka gives that to others at once.)

What the group waited for is over: parked JoinGroup and SyncGroup are answered REBALANCE_IN_PROGRESS, and the
members learn with their heartbeats that there is a new target. It is always a new one: a member may just have
been lost, whose partitions the last assignments do not give to any other.
"""

from __future__ import annotations

from uuid import UUID

from coordinator.core.consumer_group_records import (
    ClassicMember,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    TargetEpoch,
)
from coordinator.core.group_records import ConsumerGroupKey, ConsumerRecord
from coordinator.core.groups.consumer.draft import GroupDraft, KeyedValue
from coordinator.core.groups.consumer.groups import ConsumerGroups
from coordinator.core.groups.consumer.sessions import keep_alive
from coordinator.core.groups.consumer.state import FIRST_EPOCH, ConsumerGroup, MemberState
from coordinator.core.groups.history import ID_CHARS_MAX
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.groups.state import CONSUMER_TYPE, ClassicGroup, GroupMember
from coordinator.core.groups.subscription import Subscription, read_assignment, read_subscription
from coordinator.core.topic_partitions import PartitionsByTopic, StampedPartitions, by_topic, without


def begin(registry: Registry, turn: Turn, group_id: str) -> GroupDraft | str:
    """Return a new group, or what a classic one becomes, or why that has to stay what it is, in words. An
    empty one is of no account."""
    classic = registry.find(turn, group_id)
    if classic is None or not classic.members:
        return GroupDraft(ConsumerGroup(group_id), is_new=True)
    policy, size_max = registry.options.migration_policy, registry.options.consumer_size_max
    fault = ""
    if not policy.may_upgrade:
        fault = f"group.consumer.migration.policy is {policy}"
    elif len(classic.members) > size_max:
        fault = f"it has {len(classic.members)} members, and group.consumer.max.size is {size_max}"
    elif classic.protocol_type != CONSUMER_TYPE:
        fault = f"its members are no consumers (protocol type {classic.protocol_type})"
    converted = fault or _convert(registry.consumers, classic)
    if isinstance(converted, str):
        return f"the group has members of the classic protocol and can't be converted: {converted}"
    return converted


def _convert(consumers: ConsumerGroups, classic: ClassicGroup) -> GroupDraft | str:
    spoken = {
        member_id: (_subscription(classic, member), read_assignment(member.assignment))
        for member_id, member in classic.members.items()
    }
    epoch = max(classic.generation_id, FIRST_EPOCH)
    about: dict[str, ConsumerMember] = {}
    owned: dict[str, StampedPartitions] = {}
    told: dict[str, PartitionsByTopic] = {}
    owners: dict[UUID, dict[int, str]] = {}
    for member_id, (subscription, assignment) in spoken.items():
        if subscription is None or assignment is None:
            return f"what its member {member_id[:ID_CHARS_MAX]} says can't be read"
        if assignment.user_data:
            return "its assignor tells members more than partitions"
        about[member_id] = _about(classic.members[member_id], subscription)
        told[member_id] = consumers.ids_of(assignment.partitions)
        owned[member_id] = _take(owners, member_id, consumers.ids_of(subscription.owned), epoch)
    current: dict[str, CurrentAssignment] = {}
    for member_id, mine in owned.items():
        assigned = _take(owners, member_id, told[member_id], epoch)
        revoking = without(mine, assigned)
        current[member_id] = CurrentAssignment(
            epoch=epoch,
            previous_epoch=epoch,
            state=MemberState.UNREVOKED_PARTITIONS if revoking else MemberState.STABLE,
            assigned=assigned,
            revoking=revoking,
        )
    topics_hash = consumers.hash_of({name for one in about.values() for name in one.topics})
    records = tuple(_records(classic.group_id, GroupEpoch(epoch, topics_hash), about, current))
    group = ConsumerGroup(classic.group_id)
    for key, value in records:
        group.take(key, value)
    return GroupDraft(group, converted=records)


def _take(
    owners: dict[UUID, dict[int, str]], member_id: str, partitions: PartitionsByTopic, epoch: int
) -> StampedPartitions:
    """Return those of the partitions that no other member has, and note who has them. Clients assign, and may
    give a partition to two members."""
    free: dict[UUID, dict[int, int]] = {}
    for topic_id, own in partitions.items():
        of_topic = owners.setdefault(topic_id, {})
        free[topic_id] = {one: epoch for one in own if of_topic.setdefault(one, member_id) == member_id}
    return {topic_id: own for topic_id, own in free.items() if own}


def _subscription(classic: ClassicGroup, member: GroupMember) -> Subscription | None:
    """Return what a member says; before its first generation it may not speak the group's protocol."""
    spoken = dict(member.protocols)
    first = next(iter(spoken.values()), b"")
    return read_subscription(spoken.get(classic.protocol or "", first))


def _about(member: GroupMember, subscription: Subscription) -> ConsumerMember:
    return ConsumerMember(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(subscription.topics)),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(member.session_timeout_ms, member.protocols),
    )


def _records(
    group_id: str,
    epoch: GroupEpoch,
    about: dict[str, ConsumerMember],
    current: dict[str, CurrentAssignment],
) -> list[KeyedValue]:
    """Return the records in the order of Kafka's."""

    def key(record: ConsumerRecord, member_id: str = "") -> ConsumerGroupKey:
        return ConsumerGroupKey(record, group_id, member_id)

    targets = {name: by_topic(one.assigned.items()) for name, one in current.items()}
    return [
        *((key(ConsumerRecord.MEMBER, name), one) for name, one in about.items()),
        (key(ConsumerRecord.EPOCH), epoch),
        *((key(ConsumerRecord.TARGET, name), one) for name, one in targets.items()),
        (key(ConsumerRecord.TARGET_EPOCH), TargetEpoch(epoch.epoch)),
        *((key(ConsumerRecord.CURRENT, name), one) for name, one in current.items()),
    ]


def make_way(registry: Registry, turn: Turn, draft: GroupDraft) -> None:
    """Take the group of the classic protocol away, if there is one: its members are the draft's, or it has
    none. The sessions of those that stay begin again."""
    group_id = draft.group.group_id
    classic = registry.find(turn, group_id) if draft.was_made else registry.live.get(group_id)
    if draft.was_made:
        turn.records += registry.consumers.store.tombstones(group_id)
    if classic is not None:
        registry.take_away(turn, classic)
    if draft.converted:
        for member_id, member in draft.members().items():
            keep_alive(registry, turn, group_id, member_id, member)
