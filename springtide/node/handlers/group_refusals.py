"""The answer of each API of client groups where the whole request is refused, in every version's shape.

A refused group has nothing but the error. Where an answer has no place for one error, each thing that the
request names has it. Brokers hold no groups: they refuse what changes one.
"""

from __future__ import annotations

from typing import TypeAlias

from springtide.levels import CONSUMER_GROUPS
from springtide.node.handlers.context import NodeContext, Request, check_level
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import ResponseMessage
from springtide.wire.messages import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsDeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)

OneGroupRequest: TypeAlias = (
    HeartbeatRequest
    | JoinGroupRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetDeleteRequest
    | OffsetFetchRequest
    | SyncGroupRequest
)
"""Names its group in `group_id`."""
ConsumerRequest: TypeAlias = ConsumerGroupDescribeRequest | ConsumerGroupHeartbeatRequest
GroupRequest: TypeAlias = (
    OneGroupRequest | ConsumerRequest | DeleteGroupsRequest | DescribeGroupsRequest | ListGroupsRequest
)

CLASSIC_ONLY = "groups speak the classic protocol here: set group.protocol=classic"

PARTITIONS_READ_UNTIL = 3
"""The last version of OffsetFetch in which an error is told of each partition, too. Since version 2 answers
have an error of the whole, and then, in Kafka, no partitions. aiokafka 0.14 (version 3) reads the partitions
only: it would take the error for "nothing committed", and skip or repeat records."""


def refuse(request: Request, message: GroupRequest, error: ErrorCode) -> None:
    """Answer an API of groups with an error."""
    request.reply(_refusal(message, error, request.api_version))


def refuse_on_broker(context: NodeContext, request: Request, message: GroupRequest) -> None:
    """Send the client to the group's coordinator, as a Kafka broker does when it is not the coordinator.

    In a cluster that never had a coordinator, refuse with GROUP_AUTHORIZATION_FAILED: on it every client
    stops, or tells its application, at once. On other errors some ask without end.
    """
    may_have = context.view.has_groups() or not context.is_view_complete()
    error = ErrorCode.NOT_COORDINATOR if may_have else ErrorCode.GROUP_AUTHORIZATION_FAILED
    refuse(request, message, error)


def refuse_consumers_on_broker(context: NodeContext, request: Request, message: ConsumerRequest) -> None:
    """Do the same for an API of `consumer` groups (KIP-848). Below the level that has them refuse it as Kafka
    does where they are switched off."""
    if error := check_level(context, CONSUMER_GROUPS):
        refuse(request, message, error)
    else:
        refuse_on_broker(context, request, message)


def no_offset(partition: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartition:
    """Return a partition of OffsetFetch for which the group has committed nothing, or that is refused."""
    return OffsetFetchResponsePartition(
        partition_index=partition, committed_offset=-1, metadata="", error_code=error
    )


def _refusal(message: GroupRequest, error: ErrorCode, version: int) -> ResponseMessage:
    match message:
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error)
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=error, member_id=message.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitRequest():
            return OffsetCommitResponse(topics=tuple(_uncommitted(one, error) for one in message.topics))
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error)
        case OffsetFetchRequest():
            groups = tuple(
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
                for group in message.groups
            )
            topics = message.topics if version <= PARTITIONS_READ_UNTIL else None
            unfetched = tuple(_unfetched(one, error) for one in topics or ())
            return OffsetFetchResponse(error_code=error, groups=groups, topics=unfetched)
        case ConsumerGroupHeartbeatRequest():
            text = CLASSIC_ONLY if error is ErrorCode.UNSUPPORTED_VERSION else None
            return ConsumerGroupHeartbeatResponse(error_code=error, error_message=text)
        case ConsumerGroupDescribeRequest():
            return ConsumerGroupDescribeResponse(
                groups=tuple(
                    ConsumerGroupDescribeDescribedGroup(group_id=group_id, error_code=error)
                    for group_id in message.group_ids
                )
            )
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(
                groups=tuple(
                    DescribeGroupsDescribedGroup(group_id=group_id, error_code=error)
                    for group_id in message.groups
                )
            )
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=error)
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                results=tuple(
                    DeleteGroupsDeletableGroupResult(group_id=group_id, error_code=error)
                    for group_id in message.groups_names
                )
            )


def _uncommitted(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ),
    )


def _unfetched(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = tuple(no_offset(number, error) for number in topic.partition_indexes)
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
