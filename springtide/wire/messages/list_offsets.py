"""ListOffsets. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    In,
    Int8,
    Int32,
    Int64,
    MessagePart,
    RequestMessage,
    ResponseMessage,
    String,
)


class ListOffsetsPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(4)] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, In(until=0)] = 1


class ListOffsetsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, In(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, In(10)] = 0


class ListOffsetsPartitionResponse(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    old_style_offsets: Annotated[tuple[Int64, ...], In(until=0)] = ()
    timestamp: Annotated[Int64, In(1)] = -1
    offset: Annotated[Int64, In(1)] = -1
    leader_epoch: Annotated[Int32, In(4)] = -1


class ListOffsetsTopicResponse(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    throttle_time_ms: Annotated[Int32, In(2)] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
