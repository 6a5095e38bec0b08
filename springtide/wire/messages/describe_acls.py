"""DescribeAcls. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    Int8,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class DescribeAclsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = None
    pattern_type_filter: Int8 = 3
    principal_filter: NullableString = None
    host_filter: NullableString = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsAclDescription(MessagePart, frozen=True, kw_only=True):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(MessagePart, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: tuple[DescribeAclsAclDescription, ...] = ()


class DescribeAclsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    resources: tuple[DescribeAclsResource, ...] = ()
