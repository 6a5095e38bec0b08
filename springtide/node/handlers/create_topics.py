"""CreateTopics: to the controller, which places the replicas (KIP-4, KIP-464, KIP-525)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from controller.contract.administration import AdminOutcome, CreateTopicsCall, TopicToCreate
from springtide.node.handlers.administer import administer, error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.topic_ids import topic_id_uuid
from springtide.wire.errors import ErrorCode

CONFIGS_NOT_TOLD = ErrorCode.TOPIC_AUTHORIZATION_FAILED
"""What an answer of v5 says in place of the new topic's settings, which DescribeConfigs tells."""


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    names = [topic.name for topic in message.topics]
    wanted = tuple(_topic(topic) for topic in message.topics)
    if len(set(names)) < len(names):
        error = AdminOutcome(error_code=ErrorCode.INVALID_REQUEST, message="a topic is named twice")
        _answer(request, names, [error] * len(names))
        return
    gaps = [name for name, topic in zip(names, message.topics, strict=True) if not _is_dense(topic)]
    if gaps:
        error = AdminOutcome(
            error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            message=f"the partitions assigned to {gaps[0]!r} are not 0, 1, 2, ...",
        )
        _answer(request, names, [error] * len(names))
        return
    administer(
        context,
        request,
        CreateTopicsCall(topics=wanted, validate_only=message.validate_only),
        named=len(names),
        timeout=message.timeout,
        answer=lambda outcomes: _answer(request, names, outcomes),
    )


def _topic(topic: Any) -> TopicToCreate:
    assigned = sorted(topic.assignments, key=lambda one: one.partition_index)
    return TopicToCreate(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(tuple(one.broker_ids) for one in assigned) or None,
        configs={config.name: config.value for config in topic.configs if config.value is not None},
    )


def _is_dense(topic: Any) -> bool:
    numbers = sorted(one.partition_index for one in topic.assignments)
    return numbers == list(range(len(numbers)))


def _answer(request: Request, names: Sequence[str], outcomes: Sequence[AdminOutcome]) -> None:
    request.reply(
        {
            "topics": [
                {"name": name, **error_fields(outcome), **_created(outcome)}
                for name, outcome in zip(names, outcomes, strict=True)
            ]
        }
    )


def _created(outcome: AdminOutcome) -> dict[str, object]:
    created = outcome.created
    if created is None:
        return {"configs": None}
    return {
        "topic_id": None if created.topic_id is None else topic_id_uuid(created.topic_id),
        "num_partitions": created.partitions,
        "replication_factor": created.replication_factor,
        "topic_config_error_code": CONFIGS_NOT_TOLD,
        "configs": None,
    }
