"""AlterConfigs. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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


class AlterConfigsAlterableConfig(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None


class AlterConfigsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[AlterConfigsAlterableConfig, ...] = ()


class AlterConfigsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: Bool = False


class AlterConfigsResourceResponse(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""


class AlterConfigsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
