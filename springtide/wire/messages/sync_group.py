"""SyncGroup. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bytes,
    Error,
    In,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class SyncGroupRequestAssignment(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(3)] = None
    protocol_type: Annotated[NullableString, In(5)] = None
    protocol_name: Annotated[NullableString, In(5)] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE
    protocol_type: Annotated[NullableString, In(5)] = None
    protocol_name: Annotated[NullableString, In(5)] = None
    assignment: Bytes = b""
