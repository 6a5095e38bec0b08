"""CreateTopics. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    In,
    Int8,
    Int16,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
    Uuid,
)


class CreateTopicsCreatableReplicaAssignment(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


class CreateTopicsCreatableTopicConfig(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None


class CreateTopicsCreatableTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreateTopicsCreatableReplicaAssignment, ...] = ()
    configs: tuple[CreateTopicsCreatableTopicConfig, ...] = ()


class CreateTopicsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    topics: tuple[CreateTopicsCreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreateTopicsCreatableTopicConfigs(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreateTopicsCreatableTopicResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    topic_id: Annotated[Uuid, In(7)] = None
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    topic_config_error_code: Annotated[Int16, In(5, tag=0)] = 0
    num_partitions: Annotated[Int32, In(5)] = -1
    replication_factor: Annotated[Int16, In(5)] = -1
    configs: Annotated[tuple[CreateTopicsCreatableTopicConfigs, ...] | None, In(5)] = None


class CreateTopicsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    throttle_time_ms: Int32 = 0
    topics: tuple[CreateTopicsCreatableTopicResult, ...] = ()
