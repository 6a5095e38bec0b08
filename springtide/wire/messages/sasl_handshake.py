"""SaslHandshake. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import Error, RequestMessage, ResponseMessage, String


class SaslHandshakeRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE
    mechanism: String = ""


class SaslHandshakeResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE
    error_code: Error = ErrorCode.NONE
    mechanisms: tuple[String, ...] = ()
