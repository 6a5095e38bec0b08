"""How a kazoo client gets into ZooKeeper: TLS, identities, and the ACL that keeps other clients out.

The socket of a TLS connection is made here, because the options of kazoo 2.11 do less than they seem to:

- CAs of `ca` are trusted beside those of the system, so that any public certificate would do;
- the name in the certificate is not compared unless asked for;
- a handshake that fails is a connection that drops, and the reason is told at no level that is shown;
- it asks the kernel alone whether there is something to read: an answer that came in one TLS record with the
  one before would wait for the next packet.

An identity is of ZooKeeper's digest scheme: SASL would need a package more. kazoo sends the identities again
with each connection, before any request, and would log them at debug level, as it logs the data of znodes:
one filter drops the former and leaves out the latter.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Auth
from kazoo.retry import KazooRetry
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_digest_acl

from springtide.tls import TlsFilesInvalid, client_context

log = logging.getLogger(__name__)

IDENTITIES_MAX: Final = 8
RECONNECT_DELAY_S: Final = 0.05
RECONNECT_DELAY_MAX_S: Final = 0.5
#: ZooKeeper keeps an unsalted SHA-1 of the password, at which a thief of its disk can guess: so it is long.
_IDENTITY: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}:[!-~]{20,200}")
#: The line of an environment variable ends by it.
LINE_END: Final = ";"


def _keep_secrets(record: logging.LogRecord) -> bool:
    """Drop the lines in which kazoo logs identities, and leave the bytes out of the others: at DEBUG it logs
    each request and answer whole, and a znode's data can be a user's secrets."""
    if isinstance(record.args, tuple):
        if any(isinstance(value, Auth) for value in record.args):
            return False
        record.args = tuple(_without_bytes(value) for value in record.args)
    return True


def _without_bytes(value: object) -> object:
    match value:
        case bytes() | bytearray():
            return f"{len(value)} bytes"
        case tuple() if hasattr(value, "_fields"):
            kind: type[Any] = type(value)
            return kind(*(_without_bytes(item) for item in value))
        case tuple() | list():
            return [_without_bytes(item) for item in value]
        case _:
            return value


_KAZOO_LOG: Final = logging.getLogger("kazoo.client")
_KAZOO_LOG.addFilter(_keep_secrets)


class IdentitiesInvalid(Exception):
    """The text has no identities that can be used. The message says which line, and repeats no secret."""


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """Files, in PEM. ca: the only CAs to trust. cert, key: what to show; None shows nothing."""

    ca: str
    cert: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        """Raise TlsFilesInvalid."""
        return client_context(ca=self.ca, cert=self.cert, key=self.key)


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """tls: None speaks without TLS. identities: NAME:PASSWORD each. A session has all of them, and each of
    them may do everything with a znode that has `acl`: passwords change one after the other."""

    tls: ZooKeeperTls | None = None
    identities: tuple[str, ...] = field(default=(), repr=False)

    @property
    def acl(self) -> list[ACL]:
        """Return the ACL that keeps all others out; without identities, one that lets all in."""
        if not self.identities:
            return list(OPEN_ACL_UNSAFE)
        return [make_digest_acl(*identity.split(":", 1), all=True) for identity in self.identities]

    def client(self, *, hosts: str, session_timeout_ms: int) -> KazooClient:
        """Return a client that is not started yet. Raise TlsFilesInvalid."""
        return KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_DELAY_S, backoff=2, max_delay=RECONNECT_DELAY_MAX_S
            ),
            logger=_KAZOO_LOG,
            auth_data=[("digest", identity) for identity in self.identities],
            use_ssl=self.tls is not None,
            handler=None if self.tls is None else TlsThreads(self.tls),
        )


def is_open(acl: list[ACL]) -> bool:
    """Return whether the ACL lets every client do something."""
    return any(entry.id.scheme == "world" for entry in acl)


def parse_identities(text: str) -> tuple[str, ...]:
    """Return the identities of a text with a NAME:PASSWORD a line; `#` begins a comment. Raise
    IdentitiesInvalid."""
    found: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not _IDENTITY.fullmatch(line.strip()):
            raise IdentitiesInvalid(
                f"line {number} is not NAME:PASSWORD with a password of 20 to 200 characters without spaces, "
                "such as `openssl rand -hex 24` makes"
            )
        found.append(line.strip())
    if not 0 < len(found) <= IDENTITIES_MAX:
        raise IdentitiesInvalid(f"there are {len(found)} identities; it takes 1 to {IDENTITIES_MAX}")
    return tuple(found)


class TlsThreads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with sockets of ours. Files are read again for each connection, so that a certificate
    that was renewed is shown; files that can't be used leave what there was."""

    def __init__(self, tls: ZooKeeperTls) -> None:
        """Raise TlsFilesInvalid."""
        super().__init__()
        self._tls = tls
        self._context = tls.context()

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_of_kazoo: Any
    ) -> ssl.SSLSocket:
        """Connect and shake hands. Raise OSError. hostname: as it was configured; the certificate must have
        it."""
        try:
            self._context = self._tls.context()
        except TlsFilesInvalid as error:
            log.error(
                "certificate_not_renewed of=%s cause=%s consequence=%s",
                "the connection to ZooKeeper",
                error,
                "the one before stays in use",
            )
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise

    def select(self, readers: list[Any], *others: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return at once what was decrypted already and has not been read."""
        decrypted = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending()]
        if decrypted:
            return decrypted, [], []
        found: tuple[list[Any], list[Any], list[Any]] = super().select(readers, *others)
        return found


def explain_drop(error: BaseException) -> str | None:
    """Return what of a dropped connection is TLS's business, None if nothing is."""
    cause = error.__context__
    return str(cause) if isinstance(cause, ssl.SSLError | ConnectionResetError) else None
