"""JoinGroup. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
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


class JoinGroupRequestProtocol(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, In(1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(5)] = None
    protocol_type: String = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[NullableString, In(8)] = None


class JoinGroupResponseMember(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(5)] = None
    metadata: Bytes = b""


class JoinGroupResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    throttle_time_ms: Annotated[Int32, In(2)] = 0
    error_code: Error = ErrorCode.NONE
    generation_id: Int32 = -1
    protocol_type: Annotated[NullableString, In(7)] = None
    protocol_name: Annotated[NullableString, In(null_since=7)] = None
    leader: String = ""
    skip_assignment: Annotated[Bool, In(9)] = False
    member_id: String = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
