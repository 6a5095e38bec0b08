"""AlterUserScramCredentials. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bytes,
    Error,
    Int8,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class AlterUserScramCredentialsScramCredentialDeletion(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    mechanism: Int8 = 0


class AlterUserScramCredentialsScramCredentialUpsertion(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    deletions: tuple[AlterUserScramCredentialsScramCredentialDeletion, ...] = ()
    upsertions: tuple[AlterUserScramCredentialsScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(MessagePart, frozen=True, kw_only=True):
    user: String = ""
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class AlterUserScramCredentialsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()
