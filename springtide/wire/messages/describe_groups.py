"""DescribeGroups. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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


class DescribeGroupsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    groups: tuple[String, ...] = ()
    include_authorized_operations: Annotated[Bool, In(3)] = False


class DescribeGroupsDescribedGroupMember(MessagePart, frozen=True, kw_only=True):
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribeGroupsDescribedGroup(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    error_message: Annotated[NullableString, In(6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: tuple[DescribeGroupsDescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, In(3)] = -2147483648


class DescribeGroupsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    groups: tuple[DescribeGroupsDescribedGroup, ...] = ()
