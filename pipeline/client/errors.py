"""Errors between the client and a cluster, one class for each way in which a caller can react."""

from __future__ import annotations

from springtide.wire.errors import ErrorCode


class ClientError(Exception):
    """A failure of the client; all of them are one of its subclasses."""


class InvalidClientOption(ClientError):
    """A `kafka.*` option, or an address, that this client can't honour."""


class ConnectionLost(ClientError):
    """No answer came, and none will come on this connection. The request may have been carried out."""


class MalformedAnswer(ConnectionLost):
    """The peer's bytes are not an answer to the request. Nothing after them can be understood."""


class UnsupportedBroker(ClientError):
    """The broker doesn't speak a version of an API that this client needs. Trying again does not help."""


class AccessRefused(ClientError):
    """The broker refuses this client, or can't prove what it is. Trying again helps only after a change; the
    message tells which."""


class BrokerError(ClientError):
    """The broker said no, and asking again does not help."""

    def __init__(self, what: str, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{what}: {code.name} ({int(code)})" + (f": {message}" if message else ""))
        self.code = code


class RetriesExhausted(ClientError):
    """The retry budget is spent. The message tells the last reason."""


class OffsetsGone(ClientError):
    """Offsets that were to be read are not in the log: below its start, or beyond its end."""

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
