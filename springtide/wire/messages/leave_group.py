"""LeaveGroup. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    In,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class LeaveGroupMemberIdentity(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: NullableString = None
    reason: Annotated[NullableString, In(5)] = None


class LeaveGroupRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    group_id: String = ""
    member_id: Annotated[String, In(until=2)] = ""
    members: Annotated[tuple[LeaveGroupMemberIdentity, ...], In(3)] = ()


class LeaveGroupMemberResponse(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: NullableString = None
    error_code: Error = ErrorCode.NONE


class LeaveGroupResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE
    members: Annotated[tuple[LeaveGroupMemberResponse, ...], In(3)] = ()
