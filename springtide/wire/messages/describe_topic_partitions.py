"""DescribeTopicPartitions. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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
    Uuid,
)


class DescribeTopicPartitionsTopicRequest(MessagePart, frozen=True, kw_only=True):
    name: String = ""


class DescribeTopicPartitionsCursor(MessagePart, frozen=True, kw_only=True):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    topics: tuple[DescribeTopicPartitionsTopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: DescribeTopicPartitionsCursor | None = None


class DescribeTopicPartitionsResponsePartition(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...] = ()


class DescribeTopicPartitionsResponseTopic(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    name: NullableString = None
    topic_id: Uuid = None
    is_internal: Bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponseCursor(MessagePart, frozen=True, kw_only=True):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None
