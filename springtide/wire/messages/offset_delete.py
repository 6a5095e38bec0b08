"""OffsetDelete. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import Error, Int32, MessagePart, RequestMessage, ResponseMessage, String


class OffsetDeleteRequestPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    group_id: String = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteResponsePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE


class OffsetDeleteResponseTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    error_code: Error = ErrorCode.NONE
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
