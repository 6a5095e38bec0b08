"""Produce. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    In,
    Int16,
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


class ProducePartitionProduceData(MessagePart, frozen=True, kw_only=True):
    index: Int32 = 0
    records: NullableBytes = None


class ProduceTopicProduceData(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partition_data: tuple[ProducePartitionProduceData, ...] = ()


class ProduceRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.PRODUCE
    transactional_id: NullableString = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[ProduceTopicProduceData, ...] = ()


class ProduceBatchIndexAndErrorMessage(MessagePart, frozen=True, kw_only=True):
    batch_index: Int32 = 0
    batch_index_error_message: NullableString = None


class ProduceLeaderIdAndEpoch(MessagePart, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class ProducePartitionProduceResponse(MessagePart, frozen=True, kw_only=True):
    index: Int32 = 0
    error_code: Error = ErrorCode.NONE
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    record_errors: Annotated[tuple[ProduceBatchIndexAndErrorMessage, ...], In(8)] = ()
    error_message: Annotated[NullableString, In(8)] = None
    current_leader: Annotated[ProduceLeaderIdAndEpoch, In(10, tag=0)] = ProduceLeaderIdAndEpoch()


class ProduceTopicProduceResponse(MessagePart, frozen=True, kw_only=True):
    name: Annotated[String, In(until=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = None
    partition_responses: tuple[ProducePartitionProduceResponse, ...] = ()


class ProduceNodeEndpoint(MessagePart, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


class ProduceResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.PRODUCE
    responses: tuple[ProduceTopicProduceResponse, ...] = ()
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[tuple[ProduceNodeEndpoint, ...], In(10, tag=0)] = ()
