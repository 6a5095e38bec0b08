"""DescribeProducers. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    Int32,
    Int64,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class DescribeProducersTopicRequest(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


class DescribeProducersRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    topics: tuple[DescribeProducersTopicRequest, ...] = ()


class DescribeProducersProducerState(MessagePart, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class DescribeProducersPartitionResponse(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    active_producers: tuple[DescribeProducersProducerState, ...] = ()


class DescribeProducersTopicResponse(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DescribeProducersPartitionResponse, ...] = ()


class DescribeProducersResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeProducersTopicResponse, ...] = ()
