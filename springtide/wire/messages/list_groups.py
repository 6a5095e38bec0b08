"""ListGroups. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import Error, In, Int32, MessagePart, RequestMessage, ResponseMessage, String


class ListGroupsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    states_filter: Annotated[tuple[String, ...], In(4)] = ()
    types_filter: Annotated[tuple[String, ...], In(5)] = ()


class ListGroupsListedGroup(MessagePart, frozen=True, kw_only=True):
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, In(4)] = ""
    group_type: Annotated[String, In(5)] = ""


class ListGroupsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE
    groups: tuple[ListGroupsListedGroup, ...] = ()
