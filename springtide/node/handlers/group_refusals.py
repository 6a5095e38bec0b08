"""The answer of each API of client groups where the whole request is refused, in every version's shape.

A refused group has nothing but the error. Where an answer has no place for one error, each thing that the
request names has it. Brokers hold no groups: they refuse what changes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from springtide.node.handlers.context import NodeContext, Request
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode

Fields = Mapping[str, object]

CLASSIC_ONLY = "groups speak the classic protocol here: set group.protocol=classic"

OFFSET_FETCH_ERROR_SINCE = 2
"""The first version of OffsetFetch whose answer has an error of the whole."""


def refuse(request: Request, message: object, error: ErrorCode) -> None:
    """Answer an API of groups with an error. message: the decoded request."""
    request.reply(_FIELDS[request.api_key](cast(Any, message), error, request.api_version))


def refuse_on_broker(context: NodeContext, request: Request) -> None:
    """Send the client to the group's coordinator, as a Kafka broker does that is not it.

    In a cluster that never had a coordinator, refuse with GROUP_AUTHORIZATION_FAILED: on it every client
    stops, or tells its application, at once. On other errors some ask without end.
    """
    may_have = context.view.has_groups() or not context.is_view_complete()
    error = ErrorCode.NOT_COORDINATOR if may_have else ErrorCode.GROUP_AUTHORIZATION_FAILED
    refuse(request, request.decode(), error)


def refuse_consumer_protocol(_context: NodeContext, request: Request) -> None:
    """Refuse groups of the `consumer` protocol (KIP-848), as Kafka does where it is switched off."""
    request.decode()
    request.reply({"error_code": ErrorCode.UNSUPPORTED_VERSION, "error_message": CLASSIC_ONLY})


def no_offset(partition: int, error: ErrorCode = ErrorCode.NONE) -> Fields:
    """Return a partition of OffsetFetch for which the group has committed nothing, or that is refused."""
    return {"partition_index": partition, "committed_offset": -1, "metadata": "", "error_code": error}


def topic_fields(asked: Any, partitions: Iterable[Fields]) -> Fields:
    """Return the entry of a topic that a request names, by name or, in the newest versions, by id."""
    named = {field: getattr(asked, field) for field in ("name", "topic_id") if hasattr(asked, field)}
    return {**named, "partitions": partitions}


def _whole(_message: Any, error: ErrorCode, _version: int) -> Fields:
    return {"error_code": error}


def _join_group(message: Any, error: ErrorCode, _version: int) -> Fields:
    return {"error_code": error, "member_id": message.member_id}


def _offset_commit(message: Any, error: ErrorCode, _version: int) -> Fields:
    def partition(asked: Any) -> Fields:
        return {"partition_index": asked.partition_index, "error_code": error}

    return {"topics": [topic_fields(topic, map(partition, topic.partitions)) for topic in message.topics]}


def _offset_fetch(message: Any, error: ErrorCode, version: int) -> Fields:
    groups = [{"group_id": group.group_id, "error_code": error} for group in getattr(message, "groups", ())]
    topics: list[Fields] = []
    if version < OFFSET_FETCH_ERROR_SINCE:
        topics = [
            topic_fields(topic, [no_offset(number, error) for number in topic.partition_indexes])
            for topic in message.topics
        ]
    return {"error_code": error, "groups": groups, "topics": topics}


def _describe_groups(message: Any, error: ErrorCode, _version: int) -> Fields:
    return {"groups": [{"group_id": group_id, "error_code": error} for group_id in message.groups]}


def _delete_groups(message: Any, error: ErrorCode, _version: int) -> Fields:
    return {"results": [{"group_id": group_id, "error_code": error} for group_id in message.groups_names]}


_FIELDS: dict[int, Callable[[Any, ErrorCode, int], Fields]] = {
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: _whole,
    ApiKey.LEAVE_GROUP: _whole,
    ApiKey.SYNC_GROUP: _whole,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _whole,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _whole,
}
