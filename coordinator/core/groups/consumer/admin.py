"""Requests of operators about `consumer` groups."""

from __future__ import annotations

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
from coordinator.core.topic_partitions import by_topic
from springtide.wire.errors import ErrorCode


def describe_consumer_groups(registry: Registry, turn: Turn, request: DescribeConsumerGroups) -> None:
    """Tell of groups as their committed records have them."""
    groups = tuple(_describe(registry, group_id) for group_id in request.group_ids)
    turn.reply(request.token, DescribeConsumerGroupsReply(groups))


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
                by_topic(member.current.assigned.items()),
                member.target,
            )
            for member_id, member in sorted(group.members.items())
        ),
    )


def delete_consumer_group(registry: Registry, turn: Turn, group: ConsumerGroup) -> None:
    """Take a group without members away."""
    turn.records += registry.consumers.store.tombstones(group.group_id)
    if registry.consumers.live.pop(group.group_id, None) is not None:
        turn.timers[NextTarget(group.group_id)] = None
    registry.history.forget(group.group_id)
