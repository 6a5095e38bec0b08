"""OffsetForLeaderEpoch. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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
    RequestMessage,
    ResponseMessage,
    String,
)


class OffsetForLeaderEpochOffsetForLeaderPartition(MessagePart, frozen=True, kw_only=True):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderEpochOffsetForLeaderTopic(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[OffsetForLeaderEpochOffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    replica_id: Annotated[Int32, In(3)] = -2
    topics: tuple[OffsetForLeaderEpochOffsetForLeaderTopic, ...] = ()


class OffsetForLeaderEpochEpochEndOffset(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderEpochOffsetForLeaderTopicResult(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[OffsetForLeaderEpochEpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderEpochOffsetForLeaderTopicResult, ...] = ()
