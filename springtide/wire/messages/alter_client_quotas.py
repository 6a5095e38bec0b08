"""AlterClientQuotas. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    Float64,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class AlterClientQuotasEntityData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    entity_name: NullableString = None


class AlterClientQuotasOpData(MessagePart, frozen=True, kw_only=True):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class AlterClientQuotasEntryData(MessagePart, frozen=True, kw_only=True):
    entity: tuple[AlterClientQuotasEntityData, ...] = ()
    ops: tuple[AlterClientQuotasOpData, ...] = ()


class AlterClientQuotasRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    entries: tuple[AlterClientQuotasEntryData, ...] = ()
    validate_only: Bool = False


class AlterClientQuotasResponseEntryDataEntityData(MessagePart, frozen=True, kw_only=True):
    entity_type: String = ""
    entity_name: NullableString = None


class AlterClientQuotasResponseEntryData(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    entity: tuple[AlterClientQuotasResponseEntryDataEntityData, ...] = ()


class AlterClientQuotasResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    throttle_time_ms: Int32 = 0
    entries: tuple[AlterClientQuotasResponseEntryData, ...] = ()
