"""TLS over a channel: a memory BIO between the two, and one write of ciphertext for each send.

A stream object with a task for each connection costs more than the cipher does; here the loop that serves
plain sockets serves these, too. Two promises of a channel need care:

- `send` must not say that bytes are gone while their ciphertext is still here, since there may be no later
  call. So it tells of them only when the kernel has taken all of it; until then it is asked again with the
  same bytes in front, as every caller does, and does not encrypt them twice.
- A poller sees the kernel's buffer only. What is decrypted and not taken is told to it by `on_buffered`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn, cast

from springtide.node.net import Buffer, BufferingChannel, Channel

CIPHERTEXT_BYTES = 64 * 1024
"""Read from the kernel at once: four records."""
PLAINTEXT_BYTES_MAX = 256 * 1024
"""Encrypted for one send: what the kernel does not take is kept."""
UNSENT_BYTES_MAX = 64 * 1024
"""Ciphertext that a peer may make this side write (handshakes, key updates) and not take."""

_block = memoryview(bytearray(CIPHERTEXT_BYTES))
"""What was just read: it is copied before any other channel reads."""


class TlsFailed(OSError):
    """The peer's handshake or records are refused, or it refuses ours. The message has OpenSSL's reason."""


class SecuredChannel(BufferingChannel):
    """What connections of TLS have in common: the handshake, and reading. Reads make the handshake.

    is_handshaking: not yet open. peer_certificate: that the peer has shown and the CAs vouch for, in DER.
    """

    __slots__ = ("_channel", "_on_failed", "_read", "_tls", "is_handshaking", "peer")

    def __init__(
        self, channel: Channel, tls: ssl.SSLObject | ssl.SSLSocket, on_failed: Callable[[str], object] = str
    ) -> None:
        """on_failed: called with the cause before TlsFailed is raised."""
        super().__init__()
        self.peer = channel.peer
        self.is_handshaking = True
        self._channel = channel
        self._on_failed = on_failed
        self._tls = tls
        #: Into a buffer it returns the count, of which its declared type knows nothing.
        self._read = cast(Callable[[int, memoryview], int], tls.read)

    @property
    def peer_certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    @property
    def protocol(self) -> str | None:
        """Return "TLSv1.3", say; None during the handshake."""
        return self._tls.version()

    def shake_hands(self) -> None:
        """Go on with the handshake. Raise BlockingIOError while the peer must answer first, TlsFailed."""
        while self.is_handshaking:
            try:
                self._tls.do_handshake()
                self.is_handshaking = False
            except ssl.SSLWantReadError:
                self._push_own()
                if not self._fill():
                    raise self._cut_off() from None
            except ssl.SSLError as error:
                self._fail(error)
        self._push_own()

    def recv_into(self, buffer: memoryview) -> int:
        if self.is_handshaking:
            self.shake_hands()
        taken = 0
        while taken < len(buffer):
            try:
                count = self._read(len(buffer) - taken, buffer[taken:])
            except ssl.SSLWantReadError:
                self._push_own()
                try:
                    if not self._fill():
                        return taken
                except BlockingIOError:
                    if taken:
                        return taken
                    raise
            except ssl.SSLZeroReturnError:
                return taken
            except ssl.SSLError as error:
                self._fail(error)
            else:
                if not count:
                    return taken
                taken += count
        if self._has_more():
            self.on_buffered()
        return taken

    async def wait_readable(self) -> None:
        await self._channel.wait_readable()

    async def wait_writable(self) -> None:
        await self._channel.wait_writable()

    def fileno(self) -> int:
        return self._channel.fileno()

    def close(self) -> None:
        """Close it. The peer is told by the protocol if the kernel takes that at once."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()  # it would wait for the peer's word, which we don't need
        with suppress(OSError):
            self._push()
        self._channel.close()

    def _cut_off(self) -> OSError:
        return TlsFailed("the peer closed the connection in the handshake")

    def _has_more(self) -> bool:
        """Return whether something can be read that the kernel no longer has."""
        return bool(self._tls.pending())

    def _fill(self) -> int:
        """Take ciphertext from the kernel; 0 at its end. Raise BlockingIOError."""
        raise BlockingIOError

    def _push(self) -> None:
        """Send all ciphertext. Raise BlockingIOError if the kernel does not take all of it."""

    def _push_own(self) -> None:
        """Send what the protocol itself has to say, or leave it for the next send."""

    def _fail(self, error: ssl.SSLError) -> NoReturn:
        with suppress(OSError):
            self._push()  # the alert that tells the peer why
        if isinstance(error, ssl.SSLEOFError):
            raise self._cut_off() from error
        reason = error.reason or str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = error.verify_message
        cause = reason.replace("_", " ").lower()
        self._on_failed(cause)
        raise TlsFailed(cause) from error


class TlsChannel(SecuredChannel):
    """One TLS connection, of a server or a client, over any channel. A client makes the handshake first."""

    __slots__ = ("_has_heard", "_in", "_out", "_promised", "_unsent")

    sends_files = False

    def __init__(
        self,
        channel: Channel,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        on_failed: Callable[[str], object] = str,
    ) -> None:
        """server_name: makes it a client's connection; the name that the server's certificate must be for."""
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        tls = context.wrap_bio(
            self._in, self._out, server_side=server_name is None, server_hostname=server_name
        )
        super().__init__(channel, tls, on_failed)
        self._unsent = memoryview(b"")
        self._has_heard = False
        #: Plaintext that is encrypted, and not yet told to be sent.
        self._promised = 0

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        if not self._promised:
            self._promised = self._encrypt(chunks)
        self._push()
        sent, self._promised = self._promised, 0
        return sent

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        raise NotImplementedError("a file's bytes are encrypted in the loop: see `sends_files`")

    def _encrypt(self, chunks: Sequence[Buffer]) -> int:
        """Encrypt what is in front and return its size. Small pieces share a record."""
        plaintext = front(chunks, PLAINTEXT_BYTES_MAX)
        try:
            self._tls.write(plaintext)
        except ssl.SSLError as error:
            self._fail(error)
        return len(plaintext)

    def _has_more(self) -> bool:
        return bool(self._tls.pending() or self._in.pending)

    def _cut_off(self) -> OSError:
        if self._has_heard:
            return super()._cut_off()
        return ConnectionResetError("the peer said nothing")  # as probes do

    def _push(self) -> None:
        if self._out.pending:
            made = self._out.read()
            self._unsent = memoryview(b"".join((self._unsent, made)) if self._unsent else made)
        while self._unsent:
            self._unsent = self._unsent[self._channel.send((self._unsent,)) :]

    def _push_own(self) -> None:
        if not self._out.pending and not self._unsent:
            return
        try:
            self._push()
        except BlockingIOError:
            if not self._promised and len(self._unsent) > UNSENT_BYTES_MAX:
                raise TlsFailed("the peer does not take what its own messages call for") from None

    def _fill(self) -> int:
        count = self._channel.recv_into(_block)
        if count:
            self._has_heard = True
            self._in.write(_block[:count])
        return count


def front(chunks: Sequence[Buffer], size_max: int) -> Buffer:
    """Return the first bytes of some buffers, at most so many, in one."""
    taken: list[Buffer] = []
    room = size_max
    for chunk in chunks:
        taken.append(chunk if len(chunk) <= room else memoryview(chunk)[:room])
        room -= len(taken[-1])
        if not room:
            break
    return taken[0] if len(taken) == 1 else b"".join(taken)
