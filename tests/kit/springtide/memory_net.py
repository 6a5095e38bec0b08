"""A network port in memory: channels whose kernel buffers a test fills and empties by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import trio

from dataplane.shell.metrics import BrokerCounters
from springtide.node.clock import Clock, MachineClock
from springtide.node.connection import Connection, PendingAnswer
from springtide.node.net import READABLE, Buffer, Channel, ChannelReadiness, OnReady
from springtide.node.server import Server
from springtide.node.server_limits import ServerLimits
from springtide.node.threads import TrioThreads
from springtide.wire.primitives import MalformedRequest


class MemoryChannel:
    """`incoming` is what the peer has sent; `outgoing` what we have, as far as `room_bytes` let us."""

    sends_files = True
    is_handshaking = False
    peer_certificate: bytes | None = None

    def __init__(self, peer: str = "10.0.0.1") -> None:
        self.peer = peer
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.room_bytes = 2**30
        self.sends = 0
        self.held_sends = 0
        """Sends that may leave with a range of a file."""
        self.is_ended = False
        self.is_closed = False

    def fileno(self) -> int:
        return id(self)

    def recv_into(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self.incoming))
        if not count:
            if self.is_ended:
                return 0
            raise BlockingIOError
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        data = b"".join(bytes(chunk) for chunk in chunks)[: self.room_bytes]
        if not data:
            raise BlockingIOError
        self.outgoing += data
        self.room_bytes -= len(data)
        self.sends += 1
        self.held_sends += is_more_at_hand
        return len(data)

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        raise AssertionError("no files here")

    async def wait_readable(self) -> None:
        await trio.sleep_forever()

    async def wait_writable(self) -> None:
        await trio.sleep_forever()

    def close(self) -> None:
        self.is_closed = True


class MemoryPoller:
    """Readiness computed from the channels themselves."""

    def __init__(self) -> None:
        self._watched: dict[Channel, OnReady] = {}
        self.interest: dict[Channel, tuple[bool, bool]] = {}

    def add(self, channel: Channel, on_ready: OnReady) -> None:
        self._watched[channel] = on_ready
        self.interest[channel] = (True, False)

    def set_interest(self, channel: Channel, *, is_readable: bool, is_writable: bool) -> None:
        self.interest[channel] = (is_readable, is_writable)

    def remove(self, channel: Channel) -> None:
        self._watched.pop(channel, None)
        self.interest.pop(channel, None)

    async def wait(self) -> None:
        await trio.sleep_forever()

    def linger(self, wait_ms: int) -> bool:
        return False  # time is virtual, and goes on only while all tasks wait

    def dispatch(self) -> None:
        for channel, on_ready in list(self._watched.items()):
            assert isinstance(channel, MemoryChannel)
            wants_read, wants_write = self.interest[channel]
            can_read = wants_read and bool(channel.incoming or channel.is_ended)
            can_write = wants_write and channel.room_bytes > 0
            if can_read or can_write:
                on_ready(ChannelReadiness(can_read, can_write, False))

    def wake(self) -> None:
        pass

    def close(self) -> None:
        pass


class NoListener:
    address = ("127.0.0.1", 1)

    def begin(self) -> None: ...

    async def accept(self) -> MemoryChannel:
        raise AssertionError

    def close(self) -> None: ...


class Harness:
    """A server whose requests wait until the test answers them; the request's bytes are its name."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        connection_delay_ms: Callable[[str, str], int] | None = None,
        **limits: int,
    ) -> None:
        self.started: list[bytes] = []
        self.answers: dict[bytes, PendingAnswer] = {}
        self.poller = MemoryPoller()
        self.counters = BrokerCounters()
        self.server = Server(
            listeners={"": NoListener()},
            poller=self.poller,
            dispatch=self.dispatch,
            clock=clock or MachineClock(),
            threads=TrioThreads(),
            counters=self.counters,
            limits=ServerLimits(**limits),
            on_turn_end=lambda: None,
            connection_delay_ms=connection_delay_ms,
        )

    def dispatch(self, connection: Connection, frame: memoryview, answer: PendingAnswer) -> None:
        name = bytes(frame)
        if name == b"bad":
            raise MalformedRequest("bad")
        if name == b"bug":
            raise ZeroDivisionError
        if name == b"hold":
            connection.hold()
        self.started.append(name)
        self.answers[name] = answer

    def connect(self, peer: str = "10.0.0.1") -> MemoryChannel:
        channel = MemoryChannel(peer)
        self.server._admit(channel, "")
        return channel

    def turn(self) -> None:
        turn(self.server, self.poller)

    def answer(self, name: bytes, data: bytes | None = None) -> None:
        self.answers.pop(name).complete([name if data is None else data])
        self.server.end_turn()


def turn(server: Server, poller: MemoryPoller) -> None:
    """One pass, as the server's loop makes it."""
    server.now_ms = server.clock.mono_ms()
    again, server._ready_again = server._ready_again, {}
    poller.dispatch()
    for connection in again:
        if not connection.closed:
            connection.on_ready(READABLE)
    server.end_turn()


def frame(name: bytes) -> bytes:
    return struct.pack(">i", len(name)) + name
