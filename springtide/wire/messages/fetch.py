"""Fetch. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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
    NullableBytes,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
    Uuid,
)


class FetchReplicaState(MessagePart, frozen=True, kw_only=True):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(MessagePart, frozen=True, kw_only=True):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, In(12)] = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, In(17, tag=0)] = None
    high_watermark: Annotated[Int64, In(18, tag=1)] = 9223372036854775807


class FetchTopic(MessagePart, frozen=True, kw_only=True):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partitions: tuple[FetchPartition, ...] = ()


class FetchForgottenTopic(MessagePart, frozen=True, kw_only=True):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partitions: tuple[Int32, ...] = ()


class FetchRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FETCH
    cluster_id: Annotated[NullableString, In(12, tag=0)] = None
    replica_id: Annotated[Int32, In(until=14)] = -1
    replica_state: Annotated[FetchReplicaState, In(15, tag=1)] = FetchReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, In(7)] = 0
    session_epoch: Annotated[Int32, In(7)] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[FetchForgottenTopic, ...], In(7)] = ()
    rack_id: Annotated[String, In(11)] = ""


class FetchEpochEndOffset(MessagePart, frozen=True, kw_only=True):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class FetchLeaderIdAndEpoch(MessagePart, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class FetchSnapshotId(MessagePart, frozen=True, kw_only=True):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class FetchAbortedTransaction(MessagePart, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class FetchPartitionData(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    diverging_epoch: Annotated[FetchEpochEndOffset, In(12, tag=0)] = FetchEpochEndOffset()
    current_leader: Annotated[FetchLeaderIdAndEpoch, In(12, tag=1)] = FetchLeaderIdAndEpoch()
    snapshot_id: Annotated[FetchSnapshotId, In(12, tag=2)] = FetchSnapshotId()
    aborted_transactions: tuple[FetchAbortedTransaction, ...] | None = None
    preferred_read_replica: Annotated[Int32, In(11)] = -1
    records: NullableBytes = None


class FetchableTopicResponse(MessagePart, frozen=True, kw_only=True):
    topic: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partitions: tuple[FetchPartitionData, ...] = ()


class FetchNodeEndpoint(MessagePart, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class FetchResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FETCH
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Error, In(7)] = ErrorCode.NONE
    session_id: Annotated[Int32, In(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[FetchNodeEndpoint, ...], In(16, tag=0)] = ()
