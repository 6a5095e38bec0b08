"""DescribeTopicPartitions: topics page by page, with the replicas that may be elected (KIP-966).

Topics are ordered by name. An answer has so many partitions at most, and the cursor from which the next one
goes on. No names: all topics. What the client may not describe is refused by name, and left out of all.
"""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.partition_state import PartitionState, TopicState
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.authorized_operations import operations_on
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.metadata import is_legal_topic_name, leader_of, offline_replicas
from springtide.node.sharding import INTERNAL_TOPICS
from springtide.node.topic_ids import topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_MAX = 2_000
"""Kafka's max.request.partition.size.limit."""


def handle(context: NodeContext, request: Request, message: DescribeTopicPartitionsRequest) -> None:
    cursor = message.cursor
    first, start = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    if start < 0:
        refused = _failed(first, ErrorCode.INVALID_REQUEST)
        request.reply(DescribeTopicPartitionsResponse(topics=(refused,)))
        return
    view = context.view
    named = {topic.name for topic in message.topics}
    asked = named or {topic.topic for topic in view.live_topics()}
    room = max(1, min(message.response_partition_limit, PARTITIONS_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor = None
    for name in sorted(name for name in asked if name >= first):
        if not request.may(Operation.DESCRIBE, ResourceType.TOPIC, name, is_filter=not named):
            if named:
                topics.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        number = start if name == first else 0
        if room == 0:
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=number)
            break
        topic = view.topic_by_name(name)
        if topic is None or topic.deleting:
            topics.append(_failed(name, _absent(context, name)))
            continue
        shown, following = _page(view, topic, number, room, request.now_ms)
        room -= len(shown)
        topics.append(_topic(request, topic, shown))
        if following is not None:
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=following)
            break
    request.reply(DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor))


def _absent(context: NodeContext, name: str) -> ErrorCode:
    if not is_legal_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    # Before the first full state this broker does not know what is absent.
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if context.is_view_complete() else ErrorCode.LEADER_NOT_AVAILABLE
    )


def _failed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name)


def _topic(
    request: Request, topic: TopicState, partitions: Sequence[DescribeTopicPartitionsResponsePartition]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.topic,
        topic_id=topic_id_uuid(topic.topic_id),
        is_internal=topic.topic in INTERNAL_TOPICS,
        partitions=tuple(partitions),
        topic_authorized_operations=operations_on(request, ResourceType.TOPIC, topic.topic),
    )


def _page(
    view: ClusterView, topic: TopicState, start: int, room: int, now_ms: int
) -> tuple[list[DescribeTopicPartitionsResponsePartition], int | None]:
    """Return up to `room` partitions from number `start` on, and the number that comes next if one does."""
    states = view.partitions_of(topic.topic_id)
    numbers = sorted(number for number in states if number >= start)
    shown = [_partition(view, states[number], now_ms) for number in numbers[:room]]
    return shown, numbers[room] if len(numbers) > room else None


def _partition(
    view: ClusterView, state: PartitionState, now_ms: int
) -> DescribeTopicPartitionsResponsePartition:
    error, leader = leader_of(view, state, now_ms)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=state.elr,
        last_known_elr=state.last_known_elr,
        offline_replicas=offline_replicas(view, state),
    )
