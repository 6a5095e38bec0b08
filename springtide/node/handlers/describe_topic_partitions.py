"""DescribeTopicPartitions: topics page by page, with the replicas that may be elected (KIP-966).

Topics are ordered by name. An answer has so many partitions at most, and the cursor from which the next one
goes on. No names: all topics. What the client may not describe is refused by name, and left out of all.
"""

from __future__ import annotations

from typing import Any, cast

from springtide.contract.partition_state import TopicState
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers.authorized_operations import NOT_ASKED, operations_on
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.metadata import is_legal_topic_name, partition_fields
from springtide.node.topic_ids import topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode

PARTITIONS_MAX = 2_000
"""Kafka's max.request.partition.size.limit."""


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    cursor = message.cursor
    first, start = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    if start < 0:
        request.reply({"topics": [_failed(first, ErrorCode.INVALID_REQUEST)], "next_cursor": None})
        return
    view = context.view
    named = {topic.name for topic in message.topics}
    asked = named or {topic.topic for topic in view.live_topics()}
    room = max(1, min(message.response_partition_limit, PARTITIONS_MAX))
    topics: list[dict[str, object]] = []
    next_cursor = None
    for name in sorted(name for name in asked if name >= first):
        if not request.may(Operation.DESCRIBE, ResourceType.TOPIC, name, is_filter=not named):
            if named:
                topics.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        number = start if name == first else 0
        if room == 0:
            next_cursor = {"topic_name": name, "partition_index": number}
            break
        topic = view.topic_by_name(name)
        if topic is None or topic.deleting:
            topics.append(_failed(name, _absent(context, name)))
            continue
        shown, following = _page(view, topic, number, room, request.now_ms)
        room -= len(shown)
        topics.append(_topic(request, topic, shown))
        if following is not None:
            next_cursor = {"topic_name": name, "partition_index": following}
            break
    request.reply({"topics": topics, "next_cursor": next_cursor})


def _absent(context: NodeContext, name: str) -> ErrorCode:
    if not is_legal_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    # Before the first full state this broker does not know what is absent.
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if context.is_view_complete() else ErrorCode.LEADER_NOT_AVAILABLE
    )


def _failed(name: str, error: ErrorCode) -> dict[str, object]:
    return {"error_code": error, "name": name, "topic_authorized_operations": NOT_ASKED}


def _topic(request: Request, topic: TopicState, partitions: list[dict[str, object]]) -> dict[str, object]:
    return {
        "name": topic.topic,
        "topic_id": topic_id_uuid(topic.topic_id),
        "partitions": partitions,
        "topic_authorized_operations": operations_on(request, ResourceType.TOPIC, topic.topic),
    }


def _page(
    view: ClusterView, topic: TopicState, start: int, room: int, now_ms: int
) -> tuple[list[dict[str, object]], int | None]:
    """Return up to `room` partitions from number `start` on, and the number that comes next if one does."""
    states = view.partitions_of(topic.topic_id)
    numbers = sorted(number for number in states if number >= start)
    shown = [
        {
            **partition_fields(view, states[number], now_ms),
            "eligible_leader_replicas": states[number].elr,
            "last_known_elr": states[number].last_known_elr,
        }
        for number in numbers[:room]
    ]
    return shown, numbers[room] if len(numbers) > room else None
