"""The network as a port: non-blocking byte channels, and the sockets that are one.

A channel is read and written directly until the kernel says that it would block; only then does a task wait.
That is twice as fast as a stream object that takes a scheduler pass per call, and the code that completes a
waiting request can send its answer at once, without waking a task. A poller is asked once which of many
channels are ready.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

import trio

Buffer = bytes | bytearray | memoryview

LISTEN_BACKLOG = 1024
EVENTS_MAX = 64
"""Channels served in one pass: bounds how long all others wait for it, and for what its end sends."""
SEND_CHUNKS_MAX = 1000
"""Buffers handed to one sendmsg; Linux refuses more than 1024 (UIO_MAXIOV)."""
LOCAL_CONGESTION_CONTROL = b"reno"
"""For connections from this host, between whose ends is no network. Every Linux has it, and it sends at once:
BBR, where that is the host's default, spreads what it sends over time by timers."""
_CONGESTION_CONTROL = (socket.IPPROTO_TCP, socket.TCP_CONGESTION)
_NAME_BYTES_MAX = 16
"""TCP_CA_NAME_MAX of Linux."""


class Channel(Protocol):
    """One connection. Errors of the world are OSError; BlockingIOError means: wait, then try again."""

    @property
    def peer(self) -> str:
        """Return the other end's host, for limits and logs."""

    @property
    def sends_files(self) -> bool:
        """Return whether `send_file` can be called: not where the bytes have to be encrypted here."""

    @property
    def is_handshaking(self) -> bool:
        """Return whether bytes of requests can't come yet."""

    @property
    def peer_certificate(self) -> bytes | None:
        """Return the certificate in DER that the peer has shown and that our CAs vouch for."""

    def recv_into(self, buffer: memoryview) -> int:
        """Return the number of bytes read, 0 if the other side has closed. Raise BlockingIOError."""

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        """Return the bytes accepted of `chunks` (at most SEND_CHUNKS_MAX) in order. Raise BlockingIOError.
        is_more_at_hand: a range of a file follows at once, and these bytes may leave with it."""

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        """Return the bytes sent straight from a file. May block on a disk, so call it in a thread."""

    async def wait_readable(self) -> None: ...

    async def wait_writable(self) -> None: ...

    def fileno(self) -> int: ...

    def close(self) -> None:
        """Close it; tasks that wait get trio.ClosedResourceError. May be called twice."""


class ChannelReadiness(NamedTuple):
    """The possible operations on a channel now. `is_hung_up`: both directions are closed."""

    is_readable: bool
    is_writable: bool
    is_hung_up: bool


READABLE = ChannelReadiness(True, False, False)
OnReady = Callable[[ChannelReadiness], None]


class Poller(Protocol):
    """Tells which of many channels are ready. Level-triggered: a ready channel stays so until it is used."""

    def add(self, channel: Channel, on_ready: OnReady) -> None:
        """Watch a channel, at first for reading."""

    def set_interest(self, channel: Channel, *, is_readable: bool, is_writable: bool) -> None: ...

    def remove(self, channel: Channel) -> None:
        """Stop watching a channel, before it is closed. May be called twice."""

    async def wait(self) -> None:
        """Wait until a channel is ready, or `wake` is called."""

    def linger(self, wait_ms: int) -> bool:
        """Wait here for at most so long, while no other task can run; return whether a channel is ready, so
        that `dispatch` follows at once."""

    def dispatch(self) -> None:
        """Call `on_ready` of the channels that are ready now, without waiting."""

    def wake(self) -> None: ...

    def close(self) -> None: ...


class Listener(Protocol):
    """A bound address. Connections are refused until `begin`."""

    @property
    def address(self) -> tuple[str, int]: ...

    def begin(self) -> None:
        """Let connections in. Idempotent."""

    async def accept(self) -> Channel: ...

    def close(self) -> None: ...


class Net(Protocol):
    async def listen(self, host: str, port: int) -> Listener: ...

    async def connect(self, host: str, port: int) -> Channel: ...

    def poller(self) -> Poller: ...


class BufferingChannel:
    """A channel that may hold bytes which the kernel no longer has.

    on_buffered: what it calls when a read has left some behind; its poller's.
    """

    __slots__ = ("on_buffered",)

    def __init__(self) -> None:
        self.on_buffered: Callable[[], object] = bool


class SocketChannel:
    """A TCP connection."""

    __slots__ = ("_closed", "_socket", "peer", "recv_into")

    sends_files = True
    is_handshaking = False
    peer_certificate: bytes | None = None

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self._socket = sock
        self._closed = False
        self.peer = peer
        #: Bound once: the read path calls nothing of ours between the loop and the kernel.
        self.recv_into = sock.recv_into

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        flags = socket.MSG_MORE if is_more_at_hand else 0
        if len(chunks) == 1:
            return self._socket.send(chunks[0], flags)
        return self._socket.sendmsg(chunks, (), flags)

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        return os.sendfile(self._socket.fileno(), file_descriptor, position, length)

    def give_up(self) -> socket.socket:
        """Return the socket, which is the caller's from now on; the channel is closed."""
        self._closed = True
        return self._socket

    def fileno(self) -> int:
        return self._socket.fileno()

    async def wait_readable(self) -> None:
        await trio.lowlevel.wait_readable(self._socket)

    async def wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self._socket)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            trio.lowlevel.notify_closing(self._socket)
        self._socket.close()


class SocketListener:
    """The connections inherit LOCAL_CONGESTION_CONTROL of the socket: one that has begun with BBR keeps its
    timers under any other. congestion_control: the host's, which connections from elsewhere go back to."""

    __slots__ = ("_congestion_control", "_socket", "address")

    def __init__(
        self, sock: trio.socket.SocketType, address: tuple[str, int], *, congestion_control: bytes
    ) -> None:
        self._socket = sock
        self._congestion_control = congestion_control
        self.address = address

    def begin(self) -> None:
        self._socket.listen(LISTEN_BACKLOG)

    async def accept(self) -> SocketChannel:
        try:
            accepted, remote = await self._socket.accept()
        except OSError as error:
            if self._socket.fileno() >= 0:
                raise
            raise trio.ClosedResourceError("closed when a connection had just come") from error
        with suppress(OSError):
            if accepted.getsockname()[0] != remote[0]:
                accepted.setsockopt(*_CONGESTION_CONTROL, self._congestion_control)
        return _channel(accepted, str(remote[0]))

    def close(self) -> None:
        self._socket.close()


class EpollPoller:
    """One epoll for all channels; trio waits for the epoll itself."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ready: dict[int, OnReady] = {}
        #: Descriptors of channels that hold bytes themselves, and of those that are not to be read from now.
        self._buffered: dict[int, None] = {}
        self._muted: dict[int, None] = {}
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        #: What `linger` has found, for `dispatch`.
        self._found: list[tuple[int, int]] = []
        self._is_closed = False

    def add(self, channel: Channel, on_ready: OnReady) -> None:
        fd = channel.fileno()
        self._ready[fd] = on_ready
        self._epoll.register(fd, select.EPOLLIN)
        if isinstance(channel, BufferingChannel):
            channel.on_buffered = partial(self._buffered.setdefault, fd)

    def set_interest(self, channel: Channel, *, is_readable: bool, is_writable: bool) -> None:
        events = (select.EPOLLIN if is_readable else 0) | (select.EPOLLOUT if is_writable else 0)
        fd = channel.fileno()
        self._epoll.modify(fd, events)
        if is_readable:
            self._muted.pop(fd, None)
        else:
            self._muted[fd] = None

    def remove(self, channel: Channel) -> None:
        fd = channel.fileno()
        if self._ready.pop(fd, None) is not None and not self._is_closed:
            self._epoll.unregister(fd)
        self._buffered.pop(fd, None)
        self._muted.pop(fd, None)

    async def wait(self) -> None:
        if self._has_unmuted():
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(self._epoll.fileno())

    def linger(self, wait_ms: int) -> bool:
        if self._has_unmuted():
            return True
        self._found = self._epoll.poll(wait_ms / 1000, EVENTS_MAX)
        return bool(self._found)

    def _has_unmuted(self) -> bool:
        return bool(self._buffered) and not self._buffered.keys() <= self._muted.keys()

    def dispatch(self) -> None:
        ready = self._ready
        if self._buffered:
            for fd in [fd for fd in self._buffered if fd not in self._muted]:
                del self._buffered[fd]
                if (on_ready := ready.get(fd)) is not None:
                    on_ready(READABLE)
        found, self._found = self._found, []
        for fd, events in found or self._epoll.poll(0, EVENTS_MAX):
            on_ready = ready.get(fd)
            if on_ready is None:
                if fd == self._wake_fd:
                    os.eventfd_read(fd)
                continue  # the wake-up, or a channel that another one's turn has closed
            if events == select.EPOLLIN:
                on_ready(READABLE)
            else:
                on_ready(
                    ChannelReadiness(
                        bool(events & select.EPOLLIN),
                        bool(events & select.EPOLLOUT),
                        bool(events & (select.EPOLLHUP | select.EPOLLERR)),
                    )
                )

    def wake(self) -> None:
        os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            trio.lowlevel.notify_closing(self._epoll.fileno())
            self._epoll.close()
            os.close(self._wake_fd)


class SystemNet:
    """TCP of this machine."""

    __slots__ = ()

    async def listen(self, host: str, port: int) -> SocketListener:
        found = await trio.socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        sock = trio.socket.socket(family, kind, protocol)
        of_host = b""
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                of_host = sock.getsockopt(*_CONGESTION_CONTROL, _NAME_BYTES_MAX)
                sock.setsockopt(*_CONGESTION_CONTROL, LOCAL_CONGESTION_CONTROL)
            await sock.bind(address)
        except BaseException:
            sock.close()
            raise
        bound = sock.getsockname()
        return SocketListener(sock, (str(bound[0]), int(bound[1])), congestion_control=of_host)

    def poller(self) -> EpollPoller:
        return EpollPoller()

    async def connect(self, host: str, port: int) -> SocketChannel:
        stream = await trio.open_tcp_stream(host, port)
        return _channel(stream.socket, host)


def _channel(sock: trio.socket.SocketType, peer: str) -> SocketChannel:
    """Take the descriptor out of trio's wrapper: from then on the channel owns it."""
    raw = socket.socket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    raw.setblocking(False)
    with suppress(OSError):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return SocketChannel(raw, peer)
