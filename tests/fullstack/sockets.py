"""What a process sees of the network: the broker's Net port over the simulated one.

A channel belongs to a life. After its death it takes and gives nothing: the old life's tasks, which trio
still unwinds, can't speak to the world any more.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from springtide.node.net import Buffer, Channel, ChannelReadiness, OnReady
from tests.fullstack.net import LISTEN_BACKLOG, Mark, Pipe, refused, reset

if TYPE_CHECKING:
    from tests.fullstack.net import Machine, Network
    from tests.fullstack.process_life import Life

SHORT_WRITE_RATE = 0.1


def _closed() -> OSError:
    return OSError(errno.EBADF, "closed")


class SimChannel:
    """One end of a connection. The dataplane's Channel."""

    sends_files = True
    is_handshaking = False
    peer_certificate: bytes | None = None

    def __init__(self, network: Network, life: Life, machine: Machine, peer: str) -> None:
        self.network = network
        self.life = life
        self.machine = machine
        self.peer = peer
        self.remote: SimChannel | None = None
        self.out: Pipe | None = None
        self.poller: SimPoller | None = None
        self.incoming = bytearray()
        self.is_ended = False
        self.error: OSError | None = None
        self.is_closed = False
        self.is_gone = False
        """The kernel has forgotten it: what still comes is answered by RST, if the machine is on."""
        self._changed = trio.Event()
        machine.channels[self] = None

    # What the network does

    def take(self, segment: bytes | Mark) -> None:
        """Something arrives from the other end."""
        if self.is_gone:
            if segment is not Mark.RST and self.machine.is_on and self.out is not None:
                self.out.end(Mark.RST)
            return
        if segment is Mark.FIN:
            self.is_ended = True
            if self.is_closed:
                self._forget()
        elif segment is Mark.RST:
            if self.network.random.random() < 0.5:
                self.incoming.clear()  # unread bytes are lost with a reset
            self.error = reset()
            self.is_ended = True
            self._forget()
        elif self.is_closed:
            self._abort()
            return
        else:
            assert isinstance(segment, bytes)
            self.incoming += segment
        self.on_changed()

    def on_changed(self) -> None:
        """Perhaps readable or writable now."""
        if self.poller is not None:
            self.poller.mark(self)
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def kernel_close(self) -> None:
        """The process is gone or has closed: FIN behind what was sent, RST if it left bytes unread."""
        if self.is_gone:
            return
        if self.incoming:
            self._abort()
            return
        if self.out is not None:
            self.out.end(Mark.FIN)
        if self.is_ended:
            self._forget()
        self.is_closed = True

    def vanish(self) -> None:
        """The machine is off."""
        self._forget()
        if self.out is not None:
            self.out.is_ended = False  # the answer to a late segment, after the machine is back

    def _abort(self) -> None:
        if self.out is not None:
            self.out.end(Mark.RST)
        self._forget()

    def _forget(self) -> None:
        self.is_gone = True
        self.machine.channels.pop(self, None)

    # What the process does

    @property
    def is_readable(self) -> bool:
        return bool(self.incoming) or self.is_ended or self.error is not None

    @property
    def is_writable(self) -> bool:
        return self.error is not None or (self.out is not None and self.out.room_bytes > 0)

    @property
    def is_hung_up(self) -> bool:
        return self.error is not None

    def recv_into(self, buffer: memoryview) -> int:
        self._check()
        count = min(len(buffer), len(self.incoming))
        if count:
            buffer[:count] = self.incoming[:count]
            del self.incoming[:count]
            assert self.remote is not None
            assert self.remote.out is not None
            self.remote.out.on_read(count)
            return count
        if self.error is not None:
            raise self.error
        if self.is_ended:
            return 0
        raise BlockingIOError(errno.EAGAIN, "nothing to read")

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        self._check()
        if self.error is not None:
            raise self.error
        pipe = self.out
        assert pipe is not None
        room = pipe.room_bytes
        if room <= 0 or self.is_gone:
            raise BlockingIOError(errno.EAGAIN, "the send buffer is full")
        data = bytes(chunks[0]) if len(chunks) == 1 else b"".join(chunks)
        random = self.network.random
        if len(data) > 1 and random.random() < SHORT_WRITE_RATE:
            room = min(room, random.randint(1, len(data)))
        data = data[:room]
        pipe.send(data)
        return len(data)

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        raise OSError(errno.ENOTSUP, "files in memory have no descriptors")

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "no descriptor")

    async def wait_readable(self) -> None:
        while not self.is_readable:
            await self._wait_change()
        await self._run()

    async def wait_writable(self) -> None:
        while not self.is_writable:
            await self._wait_change()
        await self._run()

    async def _wait_change(self) -> None:
        if self.is_closed:
            raise trio.ClosedResourceError
        await self._changed.wait()

    async def _run(self) -> None:
        await trio.lowlevel.checkpoint()
        await self.life.running()
        if self.is_closed:
            raise trio.ClosedResourceError

    def close(self) -> None:
        if self.is_closed or self.life.is_dead:
            return
        self.kernel_close()
        self.is_closed = True
        self.on_changed()

    def _check(self) -> None:
        if self.life.is_dead:
            raise OSError(errno.EIO, "a channel of an earlier life")
        if self.is_closed:
            raise _closed()


class SimPoller:
    """Level-triggered, as epoll is: what is ready stays so."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._watched: dict[SimChannel, OnReady] = {}
        self._interest: dict[SimChannel, tuple[bool, bool]] = {}
        self._marked: dict[SimChannel, None] = {}
        self._wanted = trio.Event()
        self._is_woken = False

    def mark(self, channel: SimChannel) -> None:
        if channel in self._watched:
            self._marked[channel] = None
            self._wanted.set()

    def add(self, channel: Channel, on_ready: OnReady) -> None:
        assert isinstance(channel, SimChannel)
        self._watched[channel] = on_ready
        self._interest[channel] = (True, False)
        channel.poller = self
        self.mark(channel)

    def set_interest(self, channel: Channel, *, is_readable: bool, is_writable: bool) -> None:
        assert isinstance(channel, SimChannel)
        if channel in self._watched:
            self._interest[channel] = (is_readable, is_writable)
            self.mark(channel)

    def remove(self, channel: Channel) -> None:
        assert isinstance(channel, SimChannel)
        self._watched.pop(channel, None)
        self._interest.pop(channel, None)
        self._marked.pop(channel, None)
        channel.poller = None

    def _readiness(self, channel: SimChannel) -> ChannelReadiness | None:
        wants_read, wants_write = self._interest[channel]
        readiness = ChannelReadiness(
            wants_read and channel.is_readable,
            wants_write and channel.is_writable,
            channel.is_hung_up,
        )
        return readiness if any(readiness) else None

    async def wait(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self._is_woken and not self._is_any_ready():
            self._wanted = trio.Event()
            await self._wanted.wait()
        await self._life.running()

    def _is_any_ready(self) -> bool:
        for channel in list(self._marked):
            if self._readiness(channel) is not None:
                return True
            del self._marked[channel]
        return False

    def linger(self, wait_ms: int) -> bool:
        return False  # time is virtual, and goes on only while all tasks wait

    def dispatch(self) -> None:
        self._is_woken = False
        for channel in list(self._marked):
            on_ready = self._watched.get(channel)
            if on_ready is None:  # closed by another one's turn
                continue
            readiness = self._readiness(channel)
            if readiness is None:
                self._marked.pop(channel, None)
            else:
                on_ready(readiness)

    def wake(self) -> None:
        self._is_woken = True
        self._wanted.set()

    def close(self) -> None:
        self._watched.clear()
        self._interest.clear()
        self._marked.clear()


class SimListener:
    """Holds a port of a machine."""

    def __init__(self, network: Network, life: Life, machine: Machine, port: int) -> None:
        self._network = network
        self._life = life
        self._machine = machine
        self.address = (machine.address, port)
        self.has_begun = False
        self.is_closed = False
        self._backlog: deque[SimChannel] = deque()
        self._changed = trio.Event()

    @property
    def life(self) -> Life:
        return self._life

    def begin(self) -> None:
        self.has_begun = True

    def offer(self, client: SimChannel) -> bool:
        """A connection comes in; False: refused. The kernel accepts it, whatever the process does."""
        if not self.has_begun or self.is_closed or len(self._backlog) >= LISTEN_BACKLOG:
            return False
        self._backlog.append(_connect_ends(self._network, client, self._life, self._machine))
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        return True

    async def accept(self) -> SimChannel:
        await trio.lowlevel.checkpoint()
        while not self._backlog:
            if self.is_closed:
                raise trio.ClosedResourceError
            await self._changed.wait()
        await self._life.running()
        if self.is_closed:
            raise trio.ClosedResourceError
        return self._backlog.popleft()

    def close(self) -> None:
        if not self._life.is_dead:
            self.kernel_close()

    def kernel_close(self, *, is_silent: bool = False) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._machine.listeners.pop(self.address[1], None)
        if not is_silent:
            for channel in self._backlog:
                channel.kernel_close()
        self._changed.set()


def _connect_ends(network: Network, client: SimChannel, life: Life, machine: Machine) -> SimChannel:
    server = SimChannel(network, life, machine, client.machine.address)
    number = network.next_connection()
    names = client.machine.name, machine.name
    client.remote, server.remote = server, client
    client.out = Pipe(network, f"{number} {names[0]}>{names[1]}", client, server)
    server.out = Pipe(network, f"{number} {names[1]}>{names[0]}", server, client)
    return server


class SimNet:
    """One life's network."""

    def __init__(self, network: Network, life: Life, machine: Machine) -> None:
        self._network = network
        self._life = life
        self._machine = machine

    async def listen(self, host: str, port: int) -> SimListener:
        del host  # every machine has one address
        await trio.lowlevel.checkpoint()
        port = port or self._machine.new_port()
        if port in self._machine.listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} is in use")
        listener = SimListener(self._network, self._life, self._machine, port)
        self._machine.listeners[port] = listener
        return listener

    def poller(self) -> SimPoller:
        return SimPoller(self._life)

    async def connect(self, host: str, port: int) -> SimChannel:
        """Hangs while nobody answers; the caller has a timeout."""
        network, machine = self._network, self._machine
        target = network.find(host)
        if target is None:
            raise OSError(errno.EHOSTUNREACH, f"no route to {host}")
        if self._life.is_dead:
            raise _closed()
        channel = SimChannel(network, self._life, machine, host)
        answered = trio.Event()
        outcome: list[OSError | None] = []

        def on_syn() -> None:
            listener = target.listeners.get(port)
            error = None if listener is not None and listener.offer(channel) else refused()

            def on_answer() -> None:
                outcome.append(error)
                answered.set()

            network.send_packet(target, machine, on_answer)

        network.send_packet(machine, target, on_syn)
        try:
            await answered.wait()
            await self._life.running()
        except BaseException:
            channel.close()
            machine.channels.pop(channel, None)
            raise
        if outcome[0] is not None:
            machine.channels.pop(channel, None)
            raise outcome[0]
        return channel
