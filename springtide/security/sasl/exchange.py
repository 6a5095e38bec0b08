"""The parts that the servers' sides of all mechanisms share: outcomes, bounds, and the end of an exchange.

An exchange takes one message of the client at a time and returns an outcome. After Succeeded or LoginFailed
it answers every further message with LoginFailed. A message beyond the mechanism's bound, or one that is not
UTF-8, is refused before it is parsed. No message of a client raises an exception here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

MESSAGE_BYTES_MAX: Final = 8 * 1024
"""Bytes of one message. RFC 4616 asks for names and passwords of 255 bytes at least."""
PRINCIPAL_CHARS_MAX: Final = 1024


class Mechanism(StrEnum):
    """The mechanisms by their names on the wire."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's next message. The client has to answer it."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The client is who it says.

    principal: its name, without Kafka's prefix `User:`. token: the last message to the client.
    expiry_ms: the wall time at which the credential ends; None for one that does not end."""

    principal: str
    token: bytes = b""
    expiry_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LoginFailed:
    """The exchange has failed.

    reason: for the log; it may name the user. message: for the client; it is the same for an unknown user
    and for a wrong password."""

    reason: str
    message: str = "Authentication failed: the credentials are invalid"


Outcome = Challenge | Succeeded | LoginFailed


def malformed(what: str) -> LoginFailed:
    """Return the failure of a message that breaks the rules of its mechanism. what: names no user."""
    return LoginFailed(reason=what, message=f"Authentication failed: {what}")


class ServerExchange(ABC):
    """One authentication, on the server's side."""

    message_bytes_max: ClassVar[int] = MESSAGE_BYTES_MAX

    def __init__(self) -> None:
        self._is_over = False

    def step(self, token: bytes) -> Outcome:
        """Take the client's next message."""
        if self._is_over:
            return malformed("a message came after the end of the exchange")
        outcome = self._step_within_bounds(token)
        self._is_over = not isinstance(outcome, Challenge)
        return outcome

    def _step_within_bounds(self, token: bytes) -> Outcome:
        if len(token) > self.message_bytes_max:
            return malformed(f"a message has more than {self.message_bytes_max} bytes")
        try:
            message = token.decode()
        except UnicodeDecodeError:
            return malformed("a message is not UTF-8")
        outcome = self._answer(message)
        if isinstance(outcome, Succeeded) and not _is_name(outcome.principal):
            return malformed(f"a name is not 1 to {PRINCIPAL_CHARS_MAX} printable characters")
        return outcome

    @abstractmethod
    def _answer(self, message: str) -> Outcome:
        """Take the client's next message; it has been checked against the bound."""


def _is_name(principal: str) -> bool:
    """Return whether logs and answers can carry the name: it has no line breaks and no lone surrogates."""
    return 0 < len(principal) <= PRINCIPAL_CHARS_MAX and principal.isprintable()
