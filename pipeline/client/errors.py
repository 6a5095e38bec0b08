"""Errors between the client and a cluster, one class for each way in which a caller can react."""

from __future__ import annotations

from typing import Final

from springtide.wire.errors import ErrorCode

UNAUTHORIZED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""What a broker answers where the cluster's ACLs do not allow a request."""


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
    message says which."""


class BrokerError(ClientError):
    """The broker said no, and asking again does not help."""

    def __init__(self, what: str, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{what}: {code.name} ({int(code)})" + (f": {message}" if message else ""))
        self.code = code


class NotAuthorized(BrokerError, AccessRefused):
    """The cluster's ACLs do not allow the request. The message names the resource and the principal."""


def broker_error(what: str, code: ErrorCode, message: str | None = None, *, principal: str) -> BrokerError:
    """Return the error for a code that asking again does not change."""
    if code in UNAUTHORIZED:
        return NotAuthorized(what, code, not_allowed_to(principal))
    return BrokerError(what, code, message)


def not_allowed_to(principal: str) -> str:
    return f"the cluster's ACLs do not allow it to {principal}"


class RetriesExhausted(ClientError):
    """The retry budget is spent. The message tells the last reason."""


class TopicUnknown(RetriesExhausted):
    """Brokers have said for the budget of unknown topics that they don't know a topic, or a partition of
    it."""


class OffsetsGone(ClientError):
    """Offsets that were to be read are not in the log: below its start, or beyond its end."""

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
