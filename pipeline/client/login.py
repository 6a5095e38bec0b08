"""The login of a connection: SaslHandshake, then SaslAuthenticate as often as the mechanism needs (KIP-152).

The mechanisms are springtide.security.sasl's. A client of SCRAM also has the server prove that it knows the
password. No message here has a secret in it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pipeline.client.errors import AccessRefused
from pipeline.client.security import ClientSecurity, Login, TokenLogin
from springtide.security.sasl.clients import (
    TOKEN_CHARS_MAX,
    ClientReply,
    OauthbearerClient,
    PlainClient,
    ScramClient,
    is_bearer_token,
)
from springtide.security.sasl.credentials import ScramMechanism
from springtide.security.sasl.exchange import LoginFailed, Mechanism
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code

NONCE_BYTES: Final = 24
TOLD_CHARS_MAX: Final = 300
"""Of a broker's message."""


Ask = Callable[[ApiKey, Mapping[str, object]], Any]
"""Sends one request of the connection and returns the answer."""


def log_in(security: ClientSecurity, login: Login, ask: Ask) -> int:
    """Authenticate, or authenticate again (KIP-368). Return the session's lifetime (ms), 0 for one without an
    end. Raises AccessRefused, and what `ask` raises."""
    client = _client(security, login)
    _shake_hands(security, login, ask)
    outcome = client.step(b"")
    lifetime_ms = 0
    while isinstance(outcome, ClientReply):
        answer = ask(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": outcome.token})
        code = error_code(int(answer.error_code))
        if code is not ErrorCode.NONE:
            told = answer.error_message or code.name
            raise AccessRefused(f"{_shown(told)}: {_what_to_check(security, login)}")
        lifetime_ms = answer.session_lifetime_ms
        outcome = client.step(answer.auth_bytes)
    if isinstance(outcome, LoginFailed):
        raise AccessRefused(f"{outcome.reason}: the connection is not used")
    return lifetime_ms


def _shake_hands(security: ClientSecurity, login: Login, ask: Ask) -> None:
    answer = ask(ApiKey.SASL_HANDSHAKE, {"mechanism": str(login.mechanism)})
    code = error_code(int(answer.error_code))
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = _shown(", ".join(answer.mechanisms))
        raise AccessRefused(
            f"{login.mechanism} is not enabled there: set {security.option('sasl.mechanism')} to one that is "
            f"({enabled})"
        )
    if code is not ErrorCode.NONE:
        raise AccessRefused(f"SaslHandshake: {code.name}: {without_sasl(security)}")


def _shown(told: str) -> str:
    """Return what a broker said as one line that a terminal can show."""
    return "".join(each if each.isprintable() else "?" for each in told[:TOLD_CHARS_MAX])


def without_sasl(security: ClientSecurity) -> str:
    """Return what to do where the listener has no SASL."""
    protocol = "PLAINTEXT" if security.tls is None else "SSL"
    return (
        f"this listener has no SASL: set {security.option('security.protocol')} to {protocol}, or take the "
        "port of another"
    )


def _client(security: ClientSecurity, login: Login) -> PlainClient | ScramClient | OauthbearerClient:
    if isinstance(login, TokenLogin):
        return OauthbearerClient(login.token or _token_of(security, login.file))
    if login.mechanism is Mechanism.PLAIN:
        return PlainClient(login.username, login.password)
    nonce = secrets.token_urlsafe(NONCE_BYTES)
    mechanism = cast(ScramMechanism, login.mechanism)
    return ScramClient(mechanism, login.username, login.password, client_nonce=nonce)


def _token_of(security: ClientSecurity, file: str) -> str:
    """Return the token that the file has now."""
    option = security.option("sasl.oauthbearer.token.endpoint.url")
    try:
        with Path(file).open(encoding="ascii") as opened:
            token = opened.read(TOKEN_CHARS_MAX + 1).strip()
    except OSError as error:
        raise AccessRefused(f"{option}: can't read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if not is_bearer_token(token):
        raise AccessRefused(f"{option}: there is no bearer token in {file}")
    return token


def _what_to_check(security: ClientSecurity, login: Login) -> str:
    if isinstance(login, TokenLogin):
        return "the token may have ended, or be for another audience"
    option = security.option
    return (
        f"check {option('sasl.username')} and {option('sasl.password')}, and that the user "
        f"{login.username!r} has a password for {login.mechanism}"
    )
