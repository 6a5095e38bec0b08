"""The server's side of OAUTHBEARER: the client shows a token of an identity provider.

The first message is `n,[a=AUTHZID],^Aauth=Bearer TOKEN^A^A`, where ^A is the byte 1. Other pairs of key and
value may stand beside `auth`; they are ignored, as Kafka ignores extensions that it does not know. A refused
token is answered with JSON. The client answers that with the byte 1, and only then the server says that
authentication has failed.

Sources: RFC 7628; KIP-255, KIP-342, KIP-768.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from .exchange import Challenge, LoginFailed, Outcome, ServerExchange, Succeeded, malformed
from .scram import unescaped

_SEPARATOR: Final = "\x01"
_HEADER: Final = re.compile(r"n,(?:a=(?P<authzid>(?:[^\0=,]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"[A-Za-z]+=[\x20-\x7e\t\r\n]*")
_AUTH: Final = re.compile(r"auth=(?:bearer) +(?P<token>[-._~+/A-Za-z0-9]+=*)", re.IGNORECASE)


class TokenFault(StrEnum):
    """The reason why a token is refused. UNKNOWN_KEY: the JWKS may be older than the token's key."""

    TOO_LONG = "the token is too long"
    MALFORMED = "the token is malformed"
    ALGORITHM = "the algorithm is not allowed"
    UNKNOWN_KEY = "the key of the token is unknown"
    SIGNATURE = "the signature is wrong"
    EXPIRED = "the token has expired"
    NOT_YET_VALID = "the token is not valid yet"
    ISSUER = "the issuer is not the expected one"
    AUDIENCE = "the token is for another audience"
    PRINCIPAL = "the token names no principal"
    SCOPE = "the token lacks a scope"


@dataclass(frozen=True, slots=True)
class TokenAccepted:
    """The token is genuine and valid. expiry_ms: the wall time at which it ends."""

    principal: str
    expiry_ms: int


@dataclass(frozen=True, slots=True)
class TokenRefused:
    """The token is refused. detail: for the log; it may quote the token's header, with escapes."""

    fault: TokenFault
    detail: str = ""


VerifyToken = Callable[[str], TokenAccepted | TokenRefused]


class OauthbearerServer(ServerExchange):
    """See the module. It calls `verify` at most once."""

    message_bytes_max: ClassVar[int] = 64 * 1024

    def __init__(self, verify: VerifyToken) -> None:
        super().__init__()
        self._verify = verify
        #: The failure that is due when the client has taken the JSON.
        self._failure: LoginFailed | None = None

    def _answer(self, message: str) -> Outcome:
        if self._failure is not None:
            return (
                self._failure if message == _SEPARATOR else malformed("a failure's answer is not the byte 1")
            )
        header, *pairs = message.split(_SEPARATOR)
        gs2 = _HEADER.fullmatch(header)
        # The message ends with the last pair's separator and its own, so two empty parts come last.
        if gs2 is None or len(pairs) < 3 or pairs[-2:] != ["", ""]:
            return malformed("the OAUTHBEARER message is malformed")
        if not all(_PAIR.fullmatch(pair) for pair in pairs[:-2]):
            return malformed("a key or a value of the OAUTHBEARER message is malformed")
        auths = [pair for pair in pairs if pair.startswith("auth=")]
        auth = _AUTH.fullmatch(auths[0]) if len(auths) == 1 else None
        if auth is None:
            return malformed("the OAUTHBEARER message does not have one bearer token")
        return self._on_token(auth["token"], authzid=gs2["authzid"])

    def _on_token(self, token: str, *, authzid: str | None) -> Outcome:
        verified = self._verify(token)
        if isinstance(verified, TokenRefused):
            is_scope = verified.fault is TokenFault.SCOPE
            status = "insufficient_scope" if is_scope else "invalid_token"
            self._failure = LoginFailed(
                reason=f"{verified.fault}: {verified.detail}" if verified.detail else str(verified.fault),
                message=f"Authentication failed: the token is refused ({status})",
            )
            return Challenge(json.dumps({"status": status}).encode())
        if authzid is not None and unescaped(authzid) != verified.principal:
            return malformed("the authorization id differs from the token's principal")
        return Succeeded(verified.principal, expiry_ms=verified.expiry_ms)
