"""TLS for the loads: a non-blocking connection with the calls of a plain socket.

It costs the load more than the brokers: Python encrypts in one call for each record of 16 KiB. Both share the
machine, so a ratio of throughput is a lower bound of what a faster client would see; the brokers' own cost is
in the columns of their processor time.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable

from springtide.wire.compression import Buffer


def client_context(ca_file: str | None, cert_file: str | None = None) -> ssl.SSLContext | None:
    """Return what trusts that CA and shows that certificate, if any; None for a load in the clear."""
    if ca_file is None:
        return None
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file is not None:
        context.load_cert_chain(cert_file)
    return context


def client_settings(ca_file: str | None, cert_file: str | None = None) -> dict[str, str]:
    """Return the same as settings of librdkafka."""
    if ca_file is None:
        return {}
    shown = (
        {} if cert_file is None else {"ssl.certificate.location": cert_file, "ssl.key.location": cert_file}
    )
    return {"security.protocol": "SSL", "ssl.ca.location": ca_file, **shown}


def secured(connected: socket.socket, host: str, context: ssl.SSLContext | None) -> socket.socket:
    """Return the connection over TLS, where there is a context."""
    return connected if context is None else context.wrap_socket(connected, server_hostname=host)


class SecuredSocket:
    """A TLS connection that does not block. A caller whose send raised BlockingIOError has to send the same
    bytes again, with others behind them or not."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._connected = connected

    def fileno(self) -> int:
        return self._connected.fileno()

    def send(self, data: Buffer) -> int:
        try:
            return self._connected.send(data)
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None

    def sendmsg(self, pieces: Iterable[Buffer]) -> int:
        return self.send(b"".join(pieces))

    def recv_into(self, room: memoryview) -> int:
        """Take all that has come, as an epoll does not see what is decrypted already: `room` has to hold all
        answers that are under way."""
        taken = 0
        while taken < len(room):
            try:
                count = self._connected.recv_into(room[taken:])
            except ssl.SSLWantReadError:
                if taken:
                    return taken
                raise BlockingIOError from None
            if not count:
                return taken
            taken += count
        return taken
