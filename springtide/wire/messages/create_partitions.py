"""CreatePartitions. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class CreatePartitionsAssignment(MessagePart, frozen=True, kw_only=True):
    broker_ids: tuple[Int32, ...] = ()


class CreatePartitionsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    count: Int32 = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class CreatePartitionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()
