"""What must hold of a `consumer` group at every step, as functions of its state: I30, K1, K2, K4, K7
(docs/replication/invariants.md).

K3 (what clients believe), K5 (it comes to rest) and K8 (commits) are the walk's; K6 is I31 (check_replay).
"""

from __future__ import annotations

from coordinator.core.consumer_group_records import ConsumerMember
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.state import AWAY, FIRST_EPOCH, ConsumerGroup
from coordinator.core.groups.consumer.store import bytes_of
from coordinator.core.groups.consumer.targets import preferred_assignor
from coordinator.core.groups.registry import Registry
from coordinator.core.topic_partitions import TopicIdPartition, each_partition
from tests.kit.coordinator.consumer_desk import every


def check_consumers(registry: Registry) -> None:
    check_counts(registry)
    for group_id in sorted(registry.consumers.store.group_ids()):
        group = registry.consumers.store.latest(group_id)
        classic = registry.live.get(group_id)
        if group is None:
            values = registry.consumers.store.values.latest_items()
            left = [key for key, _ in values if key.group_id == group_id]
            assert not left, f"records without their group: {left}"
            continue
        fresh = registry.consumers.store._load(group_id, registry.consumers.store.values.latest)
        for name in ConsumerGroup.__slots__:
            assert getattr(fresh, name) == getattr(group, name), f"K6: {name} is not what the records say"
        assert registry.store.groups.latest(group_id) is None, "K7: records of both protocols"
        assert not (group.members and classic), "K7: a group lives twice"
        check_owners(group)
        check_epochs(group)
        check_target(registry, group)
        check_timers(registry, group)
        check_patterns(registry, group)


def check_counts(registry: Registry) -> None:
    """What is counted of the members of either protocol is right, and no member of a classic group is one of
    the other protocol, or can stay for ever."""
    groups, store = registry.live.values(), registry.consumers.store
    members = [member for group in groups for member in group.members.values()]
    assert registry.members == len(members) + sum(len(group.pending) for group in groups)
    assert registry.protocol_bytes == sum(member.protocol_bytes for member in members)
    about = [one for _, one in store.values.latest_items() if isinstance(one, ConsumerMember)]
    assert (store.members, store.subscription_bytes) == (len(about), sum(map(bytes_of, about)))
    for group_id, stored in registry.store.groups.latest_items():
        assert group_id in registry.live or not stored.members, "members that no session ends"
    for group in groups:
        live = registry.consumers.live.get(group.group_id)
        assert not (group.members and live and live.members), "K7: members of both protocols"
        parked = group.joiners.keys() | group.syncers.keys()
        for member in group.members.values():
            assert member.timer_ms is not None or member.member_id in parked, "a session that never ends"


def check_owners(group: ConsumerGroup) -> None:
    """I30: no partition has two members that may consume it, and the index of them is right."""
    owners: dict[TopicIdPartition, str] = {}
    for member_id, member in group.members.items():
        current = member.current
        for partition in (*each_partition(current.assigned), *each_partition(current.revoking)):
            assert partition not in owners, f"I30: {owners[partition]} and {member_id} have {partition}"
            owners[partition] = member_id
    indexed = {one: group.owners[one.topic_id][one.partition] for one in each_partition(group.owners)}
    assert owners == indexed, "I30: the index of owners is wrong"
    assert all(group.owners.values()), "I30: a topic without owners is kept"


def check_epochs(group: ConsumerGroup) -> None:
    """K1: a member's epoch is not above the target's, nor that above the group's. K2: no partition was got at
    an epoch above its member's."""
    assert FIRST_EPOCH <= group.target.epoch <= group.epoch, "K1: the target is ahead of the group"
    if not group.members:
        assert group.target.epoch == group.epoch, "K1: an empty group has a target that is due (KAFKA-20442)"
    for member_id, member in group.members.items():
        epoch = member.current.epoch
        assert epoch == AWAY or FIRST_EPOCH <= epoch <= group.target.epoch, f"K1: {member_id} is at {epoch}"
        of_topics = (*member.current.assigned.values(), *member.current.revoking.values())
        for stamp in (stamp for own in of_topics for stamp in own.values()):
            assert stamp <= max(epoch, 0), f"K2: {member_id} got something at {stamp}, and is at {epoch}"
        is_behind = epoch < group.epoch
        assert is_behind or not member.current.revoking, f"K1: {member_id} has yet to give something up"


def check_target(registry: Registry, group: ConsumerGroup) -> None:
    """K4: a target that is not due has all partitions of the subscribed topics, each once, and is even."""
    consumers = registry.consumers
    live = consumers.live.get(group.group_id)
    if group.is_due or live is None or live.topics_version != consumers.topics_version:
        return
    subscribed = {
        member_id: consumers.topics_of(GroupDraft(group), member_id, member.about)
        for member_id, member in group.members.items()
    }
    given = [one for member in group.members.values() for one in each_partition(member.target)]
    assert len(given) == len(set(given)), "K4: a partition is in two targets"
    wanted = {one for topics in subscribed.values() for one in each_partition(every(*topics))}
    assert set(given) == wanted, "K4: the target has not all partitions, or others"
    for member_id, member in group.members.items():
        topic_ids = {topic.topic_id for topic in subscribed[member_id]}
        assert member.target.keys() <= topic_ids, "K4: a target of a topic not subscribed"
    if not group.asked.keys() <= live.counted.keys():
        return  # who had to wait for its pattern is not known to this coordinator
    is_uniform = preferred_assignor(group.members, registry.options.assignors) == "uniform"
    if is_uniform and len(set(subscribed.values())) == 1:
        sizes = [sum(map(len, member.target.values())) for member in group.members.values()]
        assert max(sizes) - min(sizes) <= 1, f"K4: a target of sizes {sizes}"


def check_timers(registry: Registry, group: ConsumerGroup) -> None:
    """No member can stay for ever."""
    live = registry.consumers.live_group(group.group_id)
    assert live.members.keys() == group.members.keys(), "a member without a session, or a session without one"
    assert all(one.timer_ms is not None for one in live.members.values()), "a session that never ends"


def check_patterns(registry: Registry, group: ConsumerGroup) -> None:
    """No pattern is kept that no member subscribes."""
    assert group.patterns.keys() <= group.asked.keys(), "a pattern without a subscriber"
