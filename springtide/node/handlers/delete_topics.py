"""DeleteTopics, by name or, from v6, by id: to the controller. The data goes as each broker confirms.

A right on the cluster stands for one on each topic. Without both, a client that may see topics is told which
do not exist; another is told of none. An id that this process does not know can't be allowed by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from msgspec import structs

from springtide.contract.administration import AdminOutcome, DeleteTopicsCall, TopicToDelete
from springtide.node.handlers.administer import administer, code_of, denied, message_of, refusals, throttled
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.topic_ids import topic_id_text, topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DeleteTopicsDeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

BY_ID_SINCE = 6
THROTTLING_TOLD_SINCE = 5


def handle(context: NodeContext, request: Request, message: DeleteTopicsRequest) -> None:
    if request.api_version < BY_ID_SINCE:
        named: list[tuple[str | None, UUID | None]] = [(name, None) for name in message.topic_names]
    else:
        named = [(topic.name, topic.topic_id) for topic in message.topics]
    wanted = tuple(
        TopicToDelete(name=name, topic_id=None if topic_id is None else topic_id_text(topic_id.bytes))
        for name, topic_id in named
    )
    may_any = request.may(Operation.DELETE, ResourceType.CLUSTER, is_filter=True)
    refused = refusals(
        wanted,
        lambda topic: (
            (None if may_any else _refusal(context, request, topic))
            or throttled(request, partial(_deleted, context, topic), told_since=THROTTLING_TOLD_SINCE)
        ),
    )
    wanted = tuple(topic for place, topic in enumerate(wanted) if place not in refused)
    administer(
        context,
        request,
        DeleteTopicsCall(topics=wanted),
        named=len(wanted),
        timeout_ms=message.timeout_ms,
        refused=refused,
        answer=lambda outcomes: _answer(request, named, outcomes),
    )


def _refusal(context: NodeContext, request: Request, topic: TopicToDelete) -> AdminOutcome | None:
    known, name = None, topic.name
    if name is not None:
        known = context.view.topic_by_name(name)
    elif topic.topic_id is not None:
        known = context.view.topic_by_id(topic.topic_id)
        if known is None:
            return AdminOutcome(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        name = known.topic
    if name is None or request.may(Operation.DELETE, ResourceType.TOPIC, name):
        return None
    refused = denied(request, Operation.DELETE, ResourceType.TOPIC, topic.name or "")
    if not request.may(Operation.DESCRIBE, ResourceType.TOPIC, name, is_filter=True):
        return refused
    if known is None:
        return AdminOutcome(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return structs.replace(refused, topic=name)


def _deleted(context: NodeContext, topic: TopicToDelete) -> int:
    view = context.view
    known = view.topic_by_id(topic.topic_id or "") if topic.name is None else view.topic_by_name(topic.name)
    return 0 if known is None else len(view.partitions_of(known.topic_id))


def _answer(
    request: Request, named: Sequence[tuple[str | None, UUID | None]], outcomes: Sequence[AdminOutcome]
) -> None:
    request.reply(
        DeleteTopicsResponse(
            responses=tuple(
                DeleteTopicsDeletableTopicResult(
                    name=outcome.topic or name,
                    topic_id=topic_id if outcome.topic_id is None else topic_id_uuid(outcome.topic_id),
                    error_code=code_of(outcome),
                    error_message=message_of(outcome),
                )
                for (name, topic_id), outcome in zip(named, outcomes, strict=True)
            )
        )
    )
