"""DeleteGroups. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import Error, Int32, MessagePart, RequestMessage, ResponseMessage, String


class DeleteGroupsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    groups_names: tuple[String, ...] = ()


class DeleteGroupsDeletableGroupResult(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    error_code: Error = ErrorCode.NONE


class DeleteGroupsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    throttle_time_ms: Int32 = 0
    results: tuple[DeleteGroupsDeletableGroupResult, ...] = ()
