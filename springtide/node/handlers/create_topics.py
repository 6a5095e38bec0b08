"""CreateTopics: to the controller, which places the replicas (KIP-4, KIP-464, KIP-525)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import structs

from springtide.contract.administration import AdminOutcome, CreateTopicsCall, TopicToCreate
from springtide.node.handlers.administer import administer, code_of, denial, message_of, throttled, wait_ms
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.describe_configs import SOURCES
from springtide.node.topic_ids import topic_id_uuid
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    CreateTopicsCreatableTopic,
    CreateTopicsCreatableTopicConfigs,
    CreateTopicsCreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

THROTTLING_TOLD_SINCE = 6


def handle(context: NodeContext, request: Request, message: CreateTopicsRequest) -> None:
    """A topic that can't be made costs the request's other topics nothing, as in Kafka."""
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
            wait_ms=wait_ms(message.timeout_ms),
        ),
        named=len(asked),
        timeout_ms=message.timeout_ms,
        answer=answer,
    )


def _refused(
    context: NodeContext, request: Request, topics: Sequence[CreateTopicsCreatableTopic]
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


def _partitions(context: NodeContext, topic: CreateTopicsCreatableTopic) -> int:
    asked = len(topic.assignments) or topic.num_partitions
    return asked if asked > 0 else int(context.view.cluster_configs.get("num.partitions", 1))


def _topic(topic: CreateTopicsCreatableTopic) -> TopicToCreate:
    assigned = sorted(topic.assignments, key=lambda one: one.partition_index)
    return TopicToCreate(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(one.broker_ids for one in assigned) or None,
        configs={config.name: config.value for config in topic.configs if config.value is not None},
    )


def _malformed(topic: CreateTopicsCreatableTopic) -> AdminOutcome | None:
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


def _is_dense(topic: CreateTopicsCreatableTopic) -> bool:
    numbers = sorted(one.partition_index for one in topic.assignments)
    return numbers == list(range(len(numbers)))


def _answer(request: Request, results: Sequence[tuple[str, AdminOutcome]]) -> None:
    topics = tuple(_created(request, name, outcome) for name, outcome in results)
    request.reply(CreateTopicsResponse(topics=topics))


def _created(request: Request, name: str, outcome: AdminOutcome) -> CreateTopicsCreatableTopicResult:
    """Return what is told of a topic. The settings of a new one need a right of their own (KIP-525)."""
    told = CreateTopicsCreatableTopicResult(
        name=name, error_code=code_of(outcome), error_message=message_of(outcome)
    )
    created = outcome.created
    if created is None:
        return told
    topic_id = None if created.topic_id is None else topic_id_uuid(created.topic_id)
    if not request.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, is_filter=True):
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return structs.replace(told, topic_id=topic_id, topic_config_error_code=denied)
    return structs.replace(
        told,
        topic_id=topic_id,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=tuple(
            CreateTopicsCreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=config.is_read_only,
                config_source=SOURCES[config.source],
            )
            for config in outcome.configs
        ),
    )
