"""OffsetFetch. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    In,
    Int32,
    Int64,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
    Uuid,
)


class OffsetFetchRequestTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestTopics(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestGroup(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    member_id: Annotated[NullableString, In(9)] = None
    member_epoch: Annotated[Int32, In(9)] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None


class OffsetFetchRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    group_id: Annotated[String, In(until=7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, In(until=7, null_since=2)] = None
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], In(8)] = ()
    require_stable: Annotated[Bool, In(7)] = False


class OffsetFetchResponsePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(5)] = -1
    metadata: NullableString = None
    error_code: Error = ErrorCode.NONE


class OffsetFetchResponseTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponsePartitions(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: NullableString = None
    error_code: Error = ErrorCode.NONE


class OffsetFetchResponseTopics(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: Error = ErrorCode.NONE


class OffsetFetchResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    throttle_time_ms: Annotated[Int32, In(3)] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], In(until=7)] = ()
    error_code: Annotated[Error, In(2, until=7)] = ErrorCode.NONE
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], In(8)] = ()
