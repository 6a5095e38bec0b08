"""DescribeProducers: what a partition's leader remembers of its idempotent producers (KIP-664).

A producer that names its own id (docs/replication.md, 6.9, named producer ids) asks this before it sends: the
last sequence says what of its batches is stored already. That is the log's end, not what is committed; a
producer that must know that sends the last batch once more and waits for its acknowledgement.

A follower's older answer, taken for the truth, would have such a producer send again what is stored, and the
request does not say what is wanted. So followers answer Java's clients alone: they name no ids, and
`kafka-transactions find-hanging --broker-id` asks a broker for all that it has a replica of.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from dataplane.core.producer_state import PRODUCERS_MAX
from dataplane.core.results import ProducersResult
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.list_offsets import error_of_unhosted
from springtide.node.handlers.context import Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeProducersPartitionResponse,
    DescribeProducersProducerState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
)

JAVA: Final = "apache-kafka-java"
"""What the tools call themselves in ApiVersions."""
PRODUCERS_IN_ANSWER_MAX = PRODUCERS_MAX
"""In all partitions together: as many as one partition may have."""

_REFUSED = ProducersResult(ErrorCode.INVALID_REQUEST)
_DENIED = ProducersResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_NAMED_TWICE = "the partition is named more than once"
_TOO_MANY = f"the answer would hold more than {PRODUCERS_IN_ANSWER_MAX} producers: ask for fewer partitions"


def handle(context: BrokerContext, request: Request, message: DescribeProducersRequest) -> None:
    asked = Counter(
        (topic.name, partition) for topic in message.topics for partition in topic.partition_indexes
    )
    room = PRODUCERS_IN_ANSWER_MAX
    is_copy_enough = request.answer.connection.software.startswith(JAVA)
    topics = []
    for topic in message.topics:
        partitions = []
        may_read = request.may(Operation.READ, ResourceType.TOPIC, topic.name)
        for partition in topic.partition_indexes:
            error_message = None
            if not may_read:
                result = _DENIED
            elif asked[topic.name, partition] > 1:
                result, error_message = _REFUSED, _NAMED_TWICE
            else:
                result = _describe(context, topic.name, partition, request.now_ms, is_copy_enough)
            if len(result.producers) > room:
                result, error_message = _REFUSED, _TOO_MANY
            room -= len(result.producers)
            partitions.append(_told(partition, result, error_message))
        topics.append(DescribeProducersTopicResponse(name=topic.name, partitions=tuple(partitions)))
    request.reply(DescribeProducersResponse(topics=tuple(topics)))


def _describe(
    context: BrokerContext, topic: str, partition: int, now_ms: int, is_copy_enough: bool
) -> ProducersResult:
    hosted = context.table.get_by_name(topic, partition)
    if hosted is None:
        return ProducersResult(error_of_unhosted(context, topic, partition))
    return hosted.replica.role.describe_producers(now_ms, is_copy_enough=is_copy_enough)


def _told(
    partition: int, result: ProducersResult, error_message: str | None
) -> DescribeProducersPartitionResponse:
    return DescribeProducersPartitionResponse(
        partition_index=partition,
        error_code=result.error,
        error_message=error_message,
        active_producers=tuple(
            DescribeProducersProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_start_offset,
            )
            for producer in result.producers
        ),
    )
