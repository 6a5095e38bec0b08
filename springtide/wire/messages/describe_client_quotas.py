"""DescribeClientQuotas. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    Float64,
    Int8,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class DescribeClientQuotasComponentData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    match_type: Int8 = 0
    match: NullableString = None


class DescribeClientQuotasRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    components: tuple[DescribeClientQuotasComponentData, ...] = ()
    strict: Bool = False


class DescribeClientQuotasEntityData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    entity_name: NullableString = None


class DescribeClientQuotasValueData(MessagePart, frozen=True, kw_only=True):
    key: String = ""
    value: Float64 = 0.0


class DescribeClientQuotasEntryData(MessagePart, frozen=True, kw_only=True):
    entity: tuple[DescribeClientQuotasEntityData, ...] = ()
    values: tuple[DescribeClientQuotasValueData, ...] = ()


class DescribeClientQuotasResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    entries: tuple[DescribeClientQuotasEntryData, ...] | None = None
