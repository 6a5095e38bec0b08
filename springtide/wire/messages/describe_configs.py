"""DescribeConfigs. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
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


class DescribeConfigsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: tuple[String, ...] | None = ()


class DescribeConfigsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, In(3)] = False


class DescribeConfigsSynonym(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None
    source: Int8 = 0


class DescribeConfigsResourceResult(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    value: NullableString = None
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, In(3)] = 0
    documentation: Annotated[NullableString, In(3)] = None


class DescribeConfigsResult(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()
