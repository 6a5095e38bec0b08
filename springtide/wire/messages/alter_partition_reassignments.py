"""AlterPartitionReassignments. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    In,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class AlterPartitionReassignmentsReassignablePartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


class AlterPartitionReassignmentsReassignableTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[AlterPartitionReassignmentsReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, In(1)] = True
    topics: tuple[AlterPartitionReassignmentsReassignableTopic, ...] = ()


class AlterPartitionReassignmentsReassignablePartitionResponse(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class AlterPartitionReassignmentsReassignableTopicResponse(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[AlterPartitionReassignmentsReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, In(1)] = True
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    responses: tuple[AlterPartitionReassignmentsReassignableTopicResponse, ...] = ()
