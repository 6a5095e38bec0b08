"""CreateTopics: to the controller, which places the replicas (KIP-4, KIP-464, KIP-525)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

from springtide.contract.administration import AdminOutcome, CreateTopicsCall, TopicToCreate
from springtide.node.handlers.administer import administer, denial, error_fields, throttled, wait_ms
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.describe_configs import config_fields
from springtide.node.topic_ids import topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode

THROTTLING_TOLD_SINCE = 6


def handle(context: NodeContext, request: Request) -> None:
    """A topic that can't be made costs the request's other topics nothing, as in Kafka."""
    message = cast(Any, request.decode())
    refused = dict(_refused(context, request, message.topics))
    asked = [topic for topic in message.topics if topic.name not in refused]

    def answer(outcomes: Sequence[AdminOutcome]) -> None:
        names = [topic.name for topic in asked]
        _answer(request, [*zip(names, outcomes, strict=True), *refused.items()])

    if not asked:
        answer([])
        return
    administer(
        context,
        request,
        CreateTopicsCall(
            topics=tuple(map(_topic, asked)),
            validate_only=message.validate_only,
            wait_ms=wait_ms(message.timeout),
        ),
        named=len(asked),
        timeout=message.timeout,
        answer=answer,
    )


def _refused(
    context: NodeContext, request: Request, topics: Sequence[Any]
) -> Iterator[tuple[str, AdminOutcome]]:
    """Yield each name that is refused here, and why: it is asked for twice, the client may not create it, it
    contradicts itself, or the client is above its quota. A right on the cluster stands for one on each
    topic."""
    count = Counter(topic.name for topic in topics)
    may_create_any = request.may(Operation.CREATE, ResourceType.CLUSTER, is_filter=True)
    for topic in topics:
        if count[topic.name] > 1:
            yield (
                topic.name,
                AdminOutcome(error_code=ErrorCode.INVALID_REQUEST, message="Duplicate topic name."),
            )
        elif not may_create_any and (
            refused := denial(request, Operation.CREATE, ResourceType.TOPIC, topic.name)
        ):
            yield topic.name, refused
        elif malformed := _malformed(topic):
            yield topic.name, malformed
        elif refused := throttled(
            request, partial(_partitions, context, topic), told_since=THROTTLING_TOLD_SINCE
        ):
            yield topic.name, refused


def _partitions(context: NodeContext, topic: Any) -> int:
    asked = len(topic.assignments) or topic.num_partitions
    return asked if asked > 0 else int(context.view.cluster_configs.get("num.partitions", 1))


def _topic(topic: Any) -> TopicToCreate:
    assigned = sorted(topic.assignments, key=lambda one: one.partition_index)
    return TopicToCreate(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(tuple(one.broker_ids) for one in assigned) or None,
        configs={config.name: config.value for config in topic.configs},
    )


def _malformed(topic: Any) -> AdminOutcome | None:
    """Return Kafka's refusal of a request that can't be meant so, None if it can."""
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        return AdminOutcome(error_code=ErrorCode.INVALID_CONFIG, message=message)
    if topic.assignments and (topic.replication_factor, topic.num_partitions) != (-1, -1):
        message = "where replicas are assigned, replication factor and number of partitions must be -1"
        return AdminOutcome(error_code=ErrorCode.INVALID_REQUEST, message=message)
    if not _is_dense(topic):
        message = f"the partitions assigned to {topic.name!r} are not 0, 1, 2, ..."
        return AdminOutcome(error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, message=message)
    return None


def _is_dense(topic: Any) -> bool:
    numbers = sorted(one.partition_index for one in topic.assignments)
    return numbers == list(range(len(numbers)))


def _answer(request: Request, results: Sequence[tuple[str, AdminOutcome]]) -> None:
    request.reply(
        {
            "topics": [
                {"name": name, **error_fields(outcome), **_created(request, name, outcome)}
                for name, outcome in results
            ]
        }
    )


def _created(request: Request, name: str, outcome: AdminOutcome) -> dict[str, object]:
    """Return what is told of a new topic. Its settings need a right of their own (KIP-525)."""
    created = outcome.created
    if created is None:
        return {"configs": None}
    topic_id = None if created.topic_id is None else topic_id_uuid(created.topic_id)
    if not request.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, is_filter=True):
        return {"topic_id": topic_id, "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    return {
        "topic_id": topic_id,
        "num_partitions": created.partitions,
        "replication_factor": created.replication_factor,
        "configs": [config_fields(config) for config in outcome.configs],
    }
