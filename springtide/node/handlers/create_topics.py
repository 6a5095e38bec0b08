"""CreateTopics: to the controller, which places the replicas (KIP-4, KIP-464, KIP-525)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

from controller.contract.administration import AdminOutcome, CreateTopicsCall, TopicToCreate
from springtide.node.handlers.administer import administer, error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.describe_configs import config_fields
from springtide.node.topic_ids import topic_id_uuid
from springtide.wire.errors import ErrorCode


def handle(context: NodeContext, request: Request) -> None:
    """A topic that can't be made costs the request's other topics nothing, as in Kafka."""
    message = cast(Any, request.decode())
    refused = dict(_refused(message.topics))
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
        CreateTopicsCall(topics=tuple(map(_topic, asked)), validate_only=message.validate_only),
        named=len(asked),
        timeout=message.timeout,
        answer=answer,
    )


def _refused(topics: Sequence[Any]) -> Iterator[tuple[str, AdminOutcome]]:
    """Yield each name that is refused here, and why: it is asked for twice, or has not all partitions."""
    count = Counter(topic.name for topic in topics)
    for topic in topics:
        if count[topic.name] > 1:
            yield (
                topic.name,
                AdminOutcome(error_code=ErrorCode.INVALID_REQUEST, message="Duplicate topic name."),
            )
        elif not _is_dense(topic):
            yield (
                topic.name,
                AdminOutcome(
                    error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    message=f"the partitions assigned to {topic.name!r} are not 0, 1, 2, ...",
                ),
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


def _answer(request: Request, results: Sequence[tuple[str, AdminOutcome]]) -> None:
    request.reply(
        {
            "topics": [
                {"name": name, **error_fields(outcome), **_created(outcome)} for name, outcome in results
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
        "configs": [config_fields(config) for config in outcome.configs],
    }
