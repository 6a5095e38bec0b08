"""ElectLeaders. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    In,
    Int8,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class ElectLeadersTopicPartitions(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


class ElectLeadersRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    election_type: Annotated[Int8, In(1)] = 0
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None = None
    timeout_ms: Int32 = 60000


class ElectLeadersPartitionResult(MessagePart, frozen=True, kw_only=True):
    partition_id: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class ElectLeadersReplicaElectionResult(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partition_result: tuple[ElectLeadersPartitionResult, ...] = ()


class ElectLeadersResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Error, In(1)] = ErrorCode.NONE
    replica_election_results: tuple[ElectLeadersReplicaElectionResult, ...] = ()
