"""IncrementalAlterConfigs. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    Int8,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class IncrementalAlterConfigsAlterableConfig(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    config_operation: Int8 = 0
    value: NullableString = None


class IncrementalAlterConfigsAlterConfigsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[IncrementalAlterConfigsAlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS
    resources: tuple[IncrementalAlterConfigsAlterConfigsResource, ...] = ()
    validate_only: Bool = False


class IncrementalAlterConfigsAlterConfigsResourceResponse(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS
    throttle_time_ms: Int32 = 0
    responses: tuple[IncrementalAlterConfigsAlterConfigsResourceResponse, ...] = ()
