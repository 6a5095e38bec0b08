"""Requests of operators about `consumer` groups."""

from __future__ import annotations

from coordinator.core.consumer_group_records import encode_consumer_key
from coordinator.core.groups.consumer.groups import NextTarget
from coordinator.core.groups.consumer.requests import (
    DescribeConsumerGroups,
    DescribeConsumerGroupsReply,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from coordinator.core.groups.consumer.state import ConsumerGroup, ConsumerGroupState
from coordinator.core.groups.consumer.targets import preferred_assignor
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.machine import ShardRecord
from springtide.wire.errors import ErrorCode


def describe_consumer_groups(registry: Registry, turn: Turn, request: DescribeConsumerGroups) -> None:
    """Tell of groups as their committed records have them."""
    groups = tuple(_describe(registry, group_id) for group_id in request.group_ids)
    turn.reply(request.token, DescribeConsumerGroupsReply(groups))
    turn.reads = True


def _describe(registry: Registry, group_id: str) -> DescribedConsumerGroup:
    group = registry.consumers.store.committed(group_id)
    if group is None:
        return DescribedConsumerGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, ConsumerGroupState.DEAD)
    return DescribedConsumerGroup(
        ErrorCode.NONE,
        group_id,
        group.state,
        group.epoch,
        group.target.epoch,
        preferred_assignor(group.members, registry.options.assignors),
        tuple(
            DescribedConsumer(
                member_id,
                member.current.epoch,
                member.about,
                frozenset(member.current.assigned),
                member.target,
            )
            for member_id, member in sorted(group.members.items())
        ),
    )


def delete_consumer_group(registry: Registry, turn: Turn, group: ConsumerGroup) -> None:
    """Write the tombstones of all records of a group without members."""
    store, group_id = registry.consumers.store, group.group_id
    for key in reversed(store.latest_keys(group_id)):
        turn.records.append(ShardRecord(encode_consumer_key(key), None))
    live = registry.consumers.live.pop(group_id, None)
    if live is not None:
        turn.timers[NextTarget(group_id)] = None
