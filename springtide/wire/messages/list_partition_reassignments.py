"""ListPartitionReassignments. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class ListPartitionReassignmentsTopics(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


class ListPartitionReassignmentsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class ListPartitionReassignmentsOngoingPartitionReassignment(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


class ListPartitionReassignmentsOngoingTopicReassignment(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[ListPartitionReassignmentsOngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    topics: tuple[ListPartitionReassignmentsOngoingTopicReassignment, ...] = ()
