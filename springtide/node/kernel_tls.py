"""TLS that the kernel encrypts (kTLS): a range of a file leaves by sendfile, as on a socket without TLS.

OpenSSL makes the handshake on the socket itself and gives the keys for sending to Linux's module `tls`
(docs.kernel.org, "Kernel TLS"). It is decided for each connection, when its handshake is over: a cipher that
the kernel has not leaves the sending to OpenSSL. OpenSSL always reads and sends alerts.

A peer may send new keys and ask for ours (KeyUpdate, RFC 8446 section 4.6.3). Its own are taken up. Ours
stay, since Linux before 6.14 can't change them: OpenSSL would answer in its next write, which does not come.
So a connection is closed when its key has encrypted as much as one should, and the client connects again.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from springtide.node.net import Buffer, SocketChannel
from springtide.node.tls_channel import SecuredChannel, TlsFailed, front

_log = logging.getLogger(__name__)

OPENSSL_VERSION_MIN: Final = (3, 0)
OP_ENABLE_KTLS: Final = 1 << 3
"""SSL_OP_ENABLE_KTLS, for which Python has a name from 3.12 on."""
SOL_TLS: Final = 282
TLS_TX: Final = 1
"""Linux's names (linux/socket.h, linux/tls.h)."""
CRYPTO_INFO_BYTES: Final = 4
RECORD_BYTES_MAX: Final = 16 * 1024
"""Plaintext of one record (RFC 8446 section 5.1): OpenSSL sends no more at a time."""
KEY_BYTES_MAX: Final = 1 << 36
"""Sent with one key: below the 2**37 bytes after which Java's TLS asks for another again and again, and below
the 2**24.5 full records that AES-GCM is good for (RFC 8446 section 5.5)."""
_PROTOCOLS = Path("/proc/sys/net/ipv4/tcp_available_ulp")


def has_kernel_tls() -> bool:
    """Return whether Linux's module is loaded and OpenSSL new enough. OpenSSL may be built without it."""
    try:
        return ssl.OPENSSL_VERSION_INFO >= OPENSSL_VERSION_MIN and "tls" in _PROTOCOLS.read_text().split()
    except OSError:
        return False


class KernelTlsChannel(SecuredChannel):
    """A server's connection. sends_files: whether the kernel encrypts, known once the handshake is over."""

    __slots__ = ("_has_heard", "_key_bytes", "_on_open", "_socket", "sends_files")

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        context: ssl.SSLContext,
        on_open: Callable[[KernelTlsChannel], object],
    ) -> None:
        """Take over a socket that was accepted; on_open is called after the handshake. Raise OSError."""
        self._socket = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(SocketChannel(self._socket, peer), self._socket)
        self._on_open = on_open
        self._has_heard = False
        #: What the kernel has encrypted.
        self._key_bytes = 0
        self.sends_files = False

    @property
    def cipher(self) -> str:
        """Return OpenSSL's name of the cipher; "" before the handshake."""
        return (self._socket.cipher() or ("",))[0]

    def shake_hands(self) -> None:
        if not self._has_heard:
            if not socket.socket.recv(self._socket, 1, socket.MSG_PEEK):
                raise ConnectionResetError("the peer said nothing")  # as probes do
            self._has_heard = True
        super().shake_hands()
        self.sends_files = self._is_encrypted_by_kernel()
        self._on_open(self)

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        if self.sends_files:
            return self._count(os.writev(self._socket.fileno(), chunks))
        try:
            return self._socket.send(front(chunks, RECORD_BYTES_MAX))
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None  # and come again with the same bytes in front
        except ssl.SSLError as error:
            self._fail(error)

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        return self._count(os.sendfile(self._socket.fileno(), file_descriptor, position, length))

    def _count(self, sent: int) -> int:
        """Raise TlsFailed if the key has been used enough."""
        self._key_bytes += sent
        if self._key_bytes > KEY_BYTES_MAX:
            _log.info("connection_closed peer=%s cause=%s", self.peer, "TLS: its key was used enough")
            raise TlsFailed("the key was used enough")
        return sent

    def _is_encrypted_by_kernel(self) -> bool:
        try:
            self._socket.getsockopt(SOL_TLS, TLS_TX, CRYPTO_INFO_BYTES)
        except OSError:
            return False
        return True
