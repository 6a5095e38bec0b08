"""DescribeUserScramCredentials. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

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


class DescribeUserScramCredentialsUserName(MessagePart, frozen=True, kw_only=True):
    name: String = ""


class DescribeUserScramCredentialsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    users: tuple[DescribeUserScramCredentialsUserName, ...] | None = None


class DescribeUserScramCredentialsCredentialInfo(MessagePart, frozen=True, kw_only=True):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(MessagePart, frozen=True, kw_only=True):
    user: String = ""
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    credential_infos: tuple[DescribeUserScramCredentialsCredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()
