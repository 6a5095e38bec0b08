"""OffsetCommit. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
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


class OffsetCommitRequestPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(6)] = -1
    committed_metadata: NullableString = None


class OffsetCommitRequestTopic(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    retention_time_ms: Annotated[Int64, In(until=4)] = -1
    group_instance_id: Annotated[NullableString, In(7)] = None
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE


class OffsetCommitResponseTopic(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=9)] = ""
    topic_id: Annotated[Uuid, In(10)] = None
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    throttle_time_ms: Annotated[Int32, In(3)] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
