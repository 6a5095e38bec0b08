"""DeleteRecords. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import Error, Int32, Int64, MessagePart, RequestMessage, ResponseMessage, String


class DeleteRecordsPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Error = ErrorCode.NONE


class DeleteRecordsTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
