"""ConsumerGroupDescribe: the state of `consumer` groups, their members, and what these have and are to have
(KIP-848). Groups of other types are not found: clients ask DescribeGroups about them then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator.core.groups.consumer.requests import (
    DescribeConsumerGroups,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from coordinator.core.topic_partitions import PartitionsByTopic
from coordinator.handlers.asking import GROUPS, ask_named
from coordinator.handlers.context import CoordinatorContext
from springtide.levels import CONSUMER_GROUPS
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers import authorized_operations
from springtide.node.handlers.context import Request, check_level
from springtide.node.handlers.group_refusals import refuse
from springtide.node.topic_ids import topic_id_text
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Types of members on the wire (KIP-1099)."""


def handle(context: CoordinatorContext, request: Request, message: ConsumerGroupDescribeRequest) -> None:
    if error := check_level(context, CONSUMER_GROUPS):
        refuse(request, message, error)
        return
    groups = tuple(dict.fromkeys(message.group_ids))

    def done(found: Sequence[DescribedConsumerGroup | ErrorCode]) -> None:
        told = tuple(
            ConsumerGroupDescribeDescribedGroup(group_id=group_id, error_code=group)
            if isinstance(group, ErrorCode)
            else _described(
                context.view, request, group, authorized_operations.of_group(request, message, group_id)
            )
            for group_id, group in zip(groups, found, strict=True)
        )
        request.reply(ConsumerGroupDescribeResponse(groups=told))

    ask_named(
        context,
        request,
        groups,
        kind=GROUPS,
        name_of=str,
        make=lambda token, of_shard: DescribeConsumerGroups(token=token, group_ids=of_shard),
        entries=lambda reply: reply.groups,
        done=done,
    )


def _described(
    view: ClusterView, request: Request, group: DescribedConsumerGroup, allowed: int
) -> ConsumerGroupDescribeDescribedGroup:
    if group.error is not ErrorCode.NONE:
        return ConsumerGroupDescribeDescribedGroup(
            error_code=group.error,
            error_message=f"there is no group '{group.group_id}' of the consumer protocol",
            group_id=group.group_id,
        )
    members = tuple(_member(view, member) for member in group.members)
    names = dict.fromkeys(name for member in members for name in _topics_of(member))
    if not all(request.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return ConsumerGroupDescribeDescribedGroup(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="the group consumes topics that the client has no right to DESCRIBE",
            group_id=group.group_id,
        )
    return ConsumerGroupDescribeDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=members,
        authorized_operations=allowed,
    )


def _member(view: ClusterView, member: DescribedConsumer) -> ConsumerGroupDescribeMember:
    about = member.about
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=about.instance_id,
        rack_id=about.rack_id,
        member_epoch=member.epoch,
        client_id=about.client_id,
        client_host=about.client_host,
        subscribed_topic_names=about.topics,
        subscribed_topic_regex=about.pattern,
        assignment=_assignment(view, member.assigned),
        target_assignment=_assignment(view, member.target),
        member_type=CONSUMER_MEMBER if about.classic is None else CLASSIC_MEMBER,
    )


def _assignment(view: ClusterView, partitions: PartitionsByTopic) -> ConsumerGroupDescribeAssignment:
    """Return the partitions of topics that exist."""
    topics = (
        (view.topic_by_id(topic_id_text(one.bytes)), one, numbers) for one, numbers in partitions.items()
    )
    return ConsumerGroupDescribeAssignment(
        topic_partitions=tuple(
            ConsumerGroupDescribeTopicPartitions(
                topic_id=topic_id, topic_name=topic.topic, partitions=numbers
            )
            for topic, topic_id, numbers in topics
            if topic is not None
        )
    )


def _topics_of(member: ConsumerGroupDescribeMember) -> Iterator[str]:
    yield from member.subscribed_topic_names
    for part in (member.assignment, member.target_assignment):
        yield from (topic.topic_name for topic in part.topic_partitions)
