"""ConsumerGroupHeartbeat. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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


class ConsumerGroupHeartbeatTopicPartitions(MessagePart, frozen=True, kw_only=True):
    topic_id: Uuid = None
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupHeartbeatRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[String, ...] | None = None
    subscribed_topic_regex: Annotated[NullableString, In(1)] = None
    server_assignor: NullableString = None
    topic_partitions: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None = None


class ConsumerGroupHeartbeatAssignmentTopicPartitions(MessagePart, frozen=True, kw_only=True):
    topic_id: Uuid = None
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupHeartbeatAssignment(MessagePart, frozen=True, kw_only=True):
    topic_partitions: tuple[ConsumerGroupHeartbeatAssignmentTopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupHeartbeatAssignment | None = None
