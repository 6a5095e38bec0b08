"""The answers of a coordinator to requests about records and logs: it has none.

Clients send these to the node that they think leads a partition; on NOT_LEADER_OR_FOLLOWER they look again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from springtide.node.handlers.context import NodeContext, Request
from springtide.wire.apis import APIS, TOO_OLD_ERROR, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.produce import ProduceOutcome, decode_produce_request, encode_produce_response

ACKS_NONE = 0


def produce(_context: NodeContext, request: Request) -> None:
    """Refuse each partition. With acks=0 the connection is closed, which is all that such a client sees."""
    message = decode_produce_request(
        request.api_version, request.frame, request.body_position, on_rest=request.on_rest
    )
    is_served = request.api_version >= APIS[ApiKey.PRODUCE].served_since
    if message.acks == ACKS_NONE and is_served:
        request.answer.connection.close()
        return
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_served else TOO_OLD_ERROR
    outcomes = [ProduceOutcome(topic, partition, error) for topic, partition, _ in message.partitions]
    request.note_errors(error for _ in outcomes)
    throttle_time_ms = request.throttle_time_ms()
    request.reply_chunks(
        [encode_produce_response(request.api_version, outcomes, throttle_time_ms=throttle_time_ms)]
    )


def fetch(_context: NodeContext, request: Request) -> None:
    """Refuse each partition, or a session: none was ever begun here."""
    message = request.decode()
    if getattr(message, "session_epoch", -1) > 0:
        request.reply({"error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND})
    else:
        _refuse(request, message)


def refuse_partitions(_context: NodeContext, request: Request) -> None:
    _refuse(request, request.decode())


def describe_log_dirs(_context: NodeContext, request: Request) -> None:
    """Tell of no directory: a coordinator has no disk."""
    request.decode()
    request.reply({})


def _refuse(request: Request, message: Any) -> None:
    """Answer NOT_LEADER_OR_FOLLOWER for each partition. The fields are those of all these APIs together."""
    topics = [
        {
            "name": getattr(topic, "name", ""),
            "topic": getattr(topic, "topic", ""),
            "topic_id": getattr(topic, "topic_id", None),
            "partitions": [_refused(number) for number in _partitions(topic)],
        }
        for topic in message.topics
    ]
    request.reply({"topics": topics, "responses": topics})


def _partitions(topic: Any) -> Iterable[int]:
    if hasattr(topic, "partition_indexes"):
        yield from topic.partition_indexes
    else:
        for entry in topic.partitions:
            yield entry.partition if hasattr(entry, "partition") else entry.partition_index


def _refused(number: int) -> dict[str, object]:
    return {
        "partition": number,
        "partition_index": number,
        "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "high_watermark": -1,
        "low_watermark": -1,
        "records": b"",
    }
