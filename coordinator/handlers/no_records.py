"""The answers of a coordinator to requests about records and logs: it has none.

Clients send these to the node that they think leads a partition; on NOT_LEADER_OR_FOLLOWER they look again.
"""

from __future__ import annotations

from springtide.node.handlers.context import NodeContext, Request
from springtide.wire.apis import APIS, TOO_OLD_ERROR, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    FetchableTopicResponse,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochEpochEndOffset,
    OffsetForLeaderEpochOffsetForLeaderTopicResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from springtide.wire.produce import ProduceOutcome, decode_produce_request, encode_produce_response

ACKS_NONE = 0
_REFUSAL = ErrorCode.NOT_LEADER_OR_FOLLOWER


def produce(_context: NodeContext, request: Request) -> None:
    """Refuse each partition. With acks=0 the connection is closed, which is all that such a client sees."""
    message = decode_produce_request(
        request.api_version, request.frame, request.body_position, on_rest=request.on_rest
    )
    is_served = request.api_version >= APIS[ApiKey.PRODUCE].served_since
    if message.acks == ACKS_NONE and is_served:
        request.answer.connection.close()
        return
    error = _REFUSAL if is_served else TOO_OLD_ERROR
    outcomes = [ProduceOutcome(topic, partition, error) for topic, partition, _ in message.partitions]
    request.note_errors(error for _ in outcomes)
    throttle_time_ms = request.throttle_time_ms()
    request.reply_chunks(
        [encode_produce_response(request.api_version, outcomes, throttle_time_ms=throttle_time_ms)]
    )


def fetch(_context: NodeContext, request: Request, message: FetchRequest) -> None:
    """Refuse each partition, or a session: none was ever begun here."""
    if message.session_epoch > 0:
        request.reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        return
    topics = (
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=tuple(
                FetchPartitionData(
                    partition_index=one.partition, error_code=_REFUSAL, high_watermark=-1, records=b""
                )
                for one in topic.partitions
            ),
        )
        for topic in message.topics
    )
    request.reply(FetchResponse(responses=tuple(topics)))


def list_offsets(_context: NodeContext, request: Request, message: ListOffsetsRequest) -> None:
    """Refuse each partition."""
    topics = (
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=_REFUSAL)
                for one in topic.partitions
            ),
        )
        for topic in message.topics
    )
    request.reply(ListOffsetsResponse(topics=tuple(topics)))


def delete_records(_context: NodeContext, request: Request, message: DeleteRecordsRequest) -> None:
    """Refuse each partition."""
    topics = (
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                DeleteRecordsPartitionResult(
                    partition_index=one.partition_index, low_watermark=-1, error_code=_REFUSAL
                )
                for one in topic.partitions
            ),
        )
        for topic in message.topics
    )
    request.reply(DeleteRecordsResponse(topics=tuple(topics)))


def offset_for_leader_epoch(
    _context: NodeContext, request: Request, message: OffsetForLeaderEpochRequest
) -> None:
    """Refuse each partition."""
    topics = (
        OffsetForLeaderEpochOffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(
                OffsetForLeaderEpochEpochEndOffset(partition=one.partition, error_code=_REFUSAL)
                for one in topic.partitions
            ),
        )
        for topic in message.topics
    )
    request.reply(OffsetForLeaderEpochResponse(topics=tuple(topics)))


def describe_producers(_context: NodeContext, request: Request, message: DescribeProducersRequest) -> None:
    """Refuse each partition."""
    topics = (
        DescribeProducersTopicResponse(
            name=topic.name,
            partitions=tuple(
                DescribeProducersPartitionResponse(partition_index=number, error_code=_REFUSAL)
                for number in topic.partition_indexes
            ),
        )
        for topic in message.topics
    )
    request.reply(DescribeProducersResponse(topics=tuple(topics)))


def describe_log_dirs(_context: NodeContext, request: Request, _message: DescribeLogDirsRequest) -> None:
    """Tell of no directory: a coordinator has no disk."""
    request.reply(DescribeLogDirsResponse())
