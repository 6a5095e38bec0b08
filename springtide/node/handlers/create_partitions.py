"""CreatePartitions: more of them for a topic, to the controller (KIP-195)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from springtide.contract.administration import AdminOutcome, CreatePartitionsCall, PartitionsToCreate
from springtide.node.handlers.administer import (
    administer,
    code_of,
    denial,
    message_of,
    refusals,
    throttled,
    wait_ms,
)
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

THROTTLING_TOLD_SINCE = 3


def handle(context: NodeContext, request: Request, message: CreatePartitionsRequest) -> None:
    names = [topic.name for topic in message.topics]
    refused = refusals(
        message.topics,
        lambda topic: (
            denial(request, Operation.ALTER, ResourceType.TOPIC, topic.name)
            or throttled(request, partial(_added, context, topic), told_since=THROTTLING_TOLD_SINCE)
        ),
    )
    wanted = tuple(
        PartitionsToCreate(
            topic=topic.name,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else tuple(one.broker_ids for one in topic.assignments),
        )
        for place, topic in enumerate(message.topics)
        if place not in refused
    )
    administer(
        context,
        request,
        CreatePartitionsCall(
            topics=wanted,
            validate_only=message.validate_only,
            wait_ms=wait_ms(message.timeout_ms),
        ),
        named=len(wanted),
        timeout_ms=message.timeout_ms,
        refused=refused,
        answer=lambda outcomes: _answer(request, names, outcomes),
    )


def _added(context: NodeContext, topic: CreatePartitionsTopic) -> int:
    known = context.view.topic_by_name(topic.name)
    return 0 if known is None else max(0, topic.count - len(context.view.partitions_of(known.topic_id)))


def _answer(request: Request, names: Sequence[str], outcomes: Sequence[AdminOutcome]) -> None:
    request.reply(
        CreatePartitionsResponse(
            results=tuple(
                CreatePartitionsTopicResult(
                    name=name, error_code=code_of(outcome), error_message=message_of(outcome)
                )
                for name, outcome in zip(names, outcomes, strict=True)
            )
        )
    )
