"""DeleteTopics. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    In,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
    Uuid,
)


class DeleteTopicsDeleteTopicState(MessagePart, frozen=True, kw_only=True):
    name: NullableString = None
    topic_id: Uuid = None


class DeleteTopicsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    topic_names: Annotated[tuple[String, ...], In(until=5)] = ()
    topics: Annotated[tuple[DeleteTopicsDeleteTopicState, ...], In(6)] = ()
    timeout_ms: Int32 = 0


class DeleteTopicsDeletableTopicResult(MessagePart, frozen=True, kw_only=True):
    name: Annotated[NullableString, In(null_since=6)] = None
    topic_id: Annotated[Uuid, In(6)] = None
    error_code: Error = ErrorCode.NONE
    error_message: Annotated[NullableString, In(5)] = None


class DeleteTopicsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    throttle_time_ms: Int32 = 0
    responses: tuple[DeleteTopicsDeletableTopicResult, ...] = ()
