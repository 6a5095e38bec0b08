"""Metadata. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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
    Uuid,
)


class MetadataRequestTopic(MessagePart, frozen=True, kw_only=True):
    topic_id: Annotated[Uuid, In(10)] = None
    name: Annotated[NullableString, In(null_since=10)] = None


class MetadataRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.METADATA
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, In(null_since=1)] = None
    allow_auto_topic_creation: Annotated[Bool, In(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, In(8, until=10)] = False
    include_topic_authorized_operations: Annotated[Bool, In(8)] = False


class MetadataResponseBroker(MessagePart, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[NullableString, In(1)] = None


class MetadataResponsePartition(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In(7)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], In(5)] = ()


class MetadataResponseTopic(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    name: Annotated[NullableString, In(null_since=12)] = None
    topic_id: Annotated[Uuid, In(10)] = None
    is_internal: Annotated[Bool, In(1)] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, In(8)] = -2147483648


class MetadataResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.METADATA
    throttle_time_ms: Annotated[Int32, In(3)] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[NullableString, In(2)] = None
    controller_id: Annotated[Int32, In(1)] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, In(8, until=10)] = -2147483648
    error_code: Annotated[Error, In(13)] = ErrorCode.NONE
