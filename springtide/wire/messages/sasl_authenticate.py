"""SaslAuthenticate. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import Bytes, Error, In, Int64, NullableString, RequestMessage, ResponseMessage


class SaslAuthenticateRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, In(1)] = 0
