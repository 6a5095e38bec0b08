"""The clients' sides of the mechanisms: PLAIN, SCRAM and OAUTHBEARER.

The first step takes an empty challenge, since the client speaks first. A client of SCRAM succeeds only after
the server has proved, by its signature, that it knows the password's keys too; its bounds keep a hostile
server from making it compute for long.

Sources: RFC 4616, RFC 5802, RFC 7677, RFC 7628.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Final

from .credentials import (
    CredentialInvalid,
    ScramMechanism,
    client_key,
    hash_of,
    hmac_of,
    salted_password,
    server_key,
)
from .exchange import MESSAGE_BYTES_MAX, LoginFailed, Succeeded
from .scram import EXTENSIONS, NONCE, base64_of, bytes_of_base64, escaped, xor

TOKEN_CHARS_MAX: Final = 32 * 1024

_SERVER_FIRST: Final = re.compile(
    f"r=(?P<nonce>{NONCE}),s=(?P<salt>[^,]+),i=(?P<iterations>[0-9]{{1,9}}){EXTENSIONS}", re.ASCII
)
_SERVER_FINAL: Final = re.compile(f"v=(?P<signature>[^,]+){EXTENSIONS}")
_TOKEN: Final = re.compile(r"[-._~+/A-Za-z0-9]+=*")
_HEADER: Final = "n,,"
_SEPARATOR: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class ClientReply:
    """The client's next message. The server has to answer it."""

    token: bytes


ClientOutcome = ClientReply | Succeeded | LoginFailed


class PlainClient:
    """A client of PLAIN. It succeeds when the server has taken its one message."""

    __slots__ = ("_has_spoken", "_name", "_password")

    def __init__(self, name: str, password: str) -> None:
        self._name = name
        self._password = password
        self._has_spoken = False

    def step(self, challenge: bytes) -> ClientOutcome:
        if challenge:
            return LoginFailed("the server has sent a challenge, and PLAIN has none")
        if self._has_spoken:
            return Succeeded(self._name)
        self._has_spoken = True
        return ClientReply(f"\0{self._name}\0{self._password}".encode())


class OauthbearerClient:
    """A client of OAUTHBEARER. token: one that `is_bearer_token`. Only the server knows the principal in it.

    A server that refuses the token first tells the reason as a challenge, and waits for one byte."""

    __slots__ = ("_steps", "_token")

    def __init__(self, token: str) -> None:
        assert is_bearer_token(token), "a token has no separator in it"
        self._token = token
        self._steps = 0

    def step(self, challenge: bytes) -> ClientOutcome:
        self._steps += 1
        if self._steps == 1:
            return ClientReply(f"{_HEADER}\x01auth=Bearer {self._token}\x01\x01".encode())
        if self._steps > 2:
            return LoginFailed("the server has refused the token and continues")
        return ClientReply(_SEPARATOR) if challenge else Succeeded("")


def is_bearer_token(text: str) -> bool:
    """Return whether the text has the form of a token (RFC 6750's b64token) and is not too long."""
    return len(text) <= TOKEN_CHARS_MAX and _TOKEN.fullmatch(text) is not None


class ScramClient:
    """A client of SCRAM. client_nonce: random and printable, without commas, for this exchange alone."""

    __slots__ = ("_bare", "_expected", "_is_over", "_mechanism", "_name", "_nonce", "_password")

    def __init__(self, mechanism: ScramMechanism, name: str, password: str, *, client_nonce: str) -> None:
        assert re.fullmatch(NONCE, client_nonce), "a nonce is printable and has no comma"
        self._mechanism = mechanism
        self._name = name
        self._password = password
        self._nonce = client_nonce
        self._bare: str | None = None
        #: The signature that the server owes for the proof.
        self._expected: bytes | None = None
        self._is_over = False

    def step(self, challenge: bytes) -> ClientOutcome:
        if self._is_over:
            return LoginFailed("a message came after the end of the exchange")
        outcome = self._answer(challenge)
        self._is_over = not isinstance(outcome, ClientReply)
        return outcome

    def _answer(self, challenge: bytes) -> ClientOutcome:
        if self._bare is None:
            if challenge:
                return LoginFailed("the server has sent a challenge before the client's first message")
            self._bare = f"n={escaped(self._name)},r={self._nonce}"
            return ClientReply((_HEADER + self._bare).encode())
        try:
            message = challenge.decode() if len(challenge) <= MESSAGE_BYTES_MAX else ""
        except UnicodeDecodeError:
            message = ""
        if self._expected is None:
            return self._on_server_first(self._bare, message)
        return self._on_server_final(self._expected, message)

    def _on_server_first(self, bare: str, message: str) -> ClientOutcome:
        match = _SERVER_FIRST.fullmatch(message)
        salt = bytes_of_base64(match["salt"]) if match is not None else None
        if match is None or salt is None:
            return LoginFailed("the server's first SCRAM message is malformed")
        nonce = match["nonce"]
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            return LoginFailed("the server's nonce does not continue the client's")
        try:
            salted = salted_password(
                self._mechanism, self._password, salt=salt, iterations=int(match["iterations"])
            )
        except CredentialInvalid as error:
            return LoginFailed(f"the server's first SCRAM message is refused: {error}")
        without_proof = f"c={base64_of(_HEADER.encode())},r={nonce}"
        auth_message = f"{bare},{message},{without_proof}".encode()
        key = client_key(self._mechanism, salted)
        proof = xor(key, hmac_of(self._mechanism, hash_of(self._mechanism, key), auth_message))
        self._expected = hmac_of(self._mechanism, server_key(self._mechanism, salted), auth_message)
        return ClientReply(f"{without_proof},p={base64_of(proof)}".encode())

    def _on_server_final(self, expected: bytes, message: str) -> ClientOutcome:
        match = _SERVER_FINAL.fullmatch(message)
        signature = bytes_of_base64(match["signature"]) if match is not None else None
        if signature is None:
            return LoginFailed(f"the server has refused the proof or is malformed: {message[:100]!r}")
        if not hmac.compare_digest(signature, expected):
            return LoginFailed("the server's signature is wrong: it does not know the password")
        return Succeeded(self._name)
