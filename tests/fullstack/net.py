"""The network between machines: TCP as its users see it, in virtual time.

A connection is two independent pipes of bytes, in order and without loss inside each, as TCP promises;
segments are cut anew at random, and each takes its own time. What the world does to it:

- a *cut* of one direction between two machines parks what is on its way. Sending goes on until the send
  buffer is full; when the cut ends, the bytes arrive late, or, if it lasted longer than a kernel goes on
  retrying, the connection is reset.
- a *killed process*: its kernel ends its connections, with FIN, or RST where bytes were unread.
- a *dead machine* says nothing. Its peers notice when they send to it after it is back, or by their own
  timeouts; connecting to it hangs.
- connecting to a port without a listener is refused.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

from tests.fullstack.clock import NS_PER_MS
from tests.fullstack.world import World
from tests.simulation.network import NetworkOptions

if TYPE_CHECKING:
    from tests.fullstack.sockets import SimChannel, SimListener

PIPE_BYTES_MAX = 64 * 1024
"""Send buffer and receive buffer together: what a sender may have on its way and unread."""
RETRY_MS_MAX = 12_000
"""A cut that lasts longer resets what was on its way."""
RETRANSMIT_MS = (1, 400)
RETRANSMIT_TIMEOUT_MS = 200
WHOLE_SEGMENT_RATE = 0.7
LISTEN_BACKLOG = 128


class Mark(Enum):
    """What ends a pipe."""

    FIN = "fin"
    RST = "rst"


CALM = NetworkOptions(delay_ms=(0.05, 1.0))


def draw_delay_ns(weather: NetworkOptions, random: Random) -> int:
    """How long a segment takes. TCP hides what is lost: it comes with a retransmission, later."""
    delay_ms = random.uniform(*weather.delay_ms)
    if weather.slow_rate and random.random() < weather.slow_rate:
        delay_ms += random.uniform(0, weather.slow_delay_ms)
    timeout_ms = RETRANSMIT_TIMEOUT_MS
    while weather.loss_rate and random.random() < weather.loss_rate:
        delay_ms += timeout_ms
        timeout_ms *= 2
    return int(delay_ms * NS_PER_MS)


class Machine:
    """An address, and what its kernel holds."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.is_on = True
        self.listeners: dict[int, SimListener] = {}
        self.channels: dict[SimChannel, None] = {}
        self._next_port = 40_000

    def new_port(self) -> int:
        self._next_port += 1
        return self._next_port


class Pipe:
    """One direction of one connection. `source` may be gone; what it sent still arrives."""

    def __init__(self, network: Network, name: str, sender: SimChannel, receiver: SimChannel) -> None:
        self.network = network
        self.name = name
        self.sender = sender
        self.receiver = receiver
        self.ends = (sender.machine, receiver.machine)
        #: On their way, in order.
        self.segments: deque[bytes | Mark] = deque()
        self.parked: deque[bytes | Mark] = deque()
        self.parked_since_ns = 0
        #: Sent and not yet read, as far as the sender knows.
        self.held_bytes = 0
        self._unsettled_bytes = 0
        self._last_arrival_ns = 0
        self.is_ended = False

    @property
    def room_bytes(self) -> int:
        return PIPE_BYTES_MAX - self.held_bytes

    def send(self, data: bytes) -> None:
        """At most room_bytes."""
        self.held_bytes += len(data)
        random = self.network.random
        start = 0
        while start < len(data):
            stop = len(data)
            if random.random() >= WHOLE_SEGMENT_RATE:
                stop = random.randint(start + 1, stop)
            self._put(data[start:stop])
            start = stop

    def end(self, mark: Mark) -> None:
        if not self.is_ended:
            self.is_ended = True
            self._put(mark)

    def _put(self, segment: bytes | Mark) -> None:
        self.segments.append(segment)
        world = self.network.world
        due_ns = world.now_ns + self.network.draw_delay_ns()
        self._last_arrival_ns = max(self._last_arrival_ns, due_ns)
        world.at_ns(self._last_arrival_ns, self._arrive)

    def _arrive(self) -> None:
        segment = self.segments.popleft()
        if self.parked or self.network.is_cut(*self.ends):
            if not self.parked:
                self.parked_since_ns = self.network.world.now_ns
                self.network.parked[self] = None
            self.parked.append(segment)
        else:
            self._deliver(segment)

    def _deliver(self, segment: bytes | Mark) -> None:
        world = self.network.world
        if isinstance(segment, Mark):
            world.trace(f"{self.name} {segment.value}")
        else:
            world.trace(self.name, segment)
        self.receiver.take(segment)

    def on_read(self, count: int) -> None:
        """The receiver has room again; its sender hears of it unless the way back is cut."""
        self._unsettled_bytes += count
        self.settle()

    def settle(self) -> None:
        if self._unsettled_bytes and not self.network.is_cut(self.ends[1], self.ends[0]):
            was_full = self.room_bytes <= 0
            self.held_bytes -= self._unsettled_bytes
            self._unsettled_bytes = 0
            if was_full:
                self.sender.on_changed()
        elif self._unsettled_bytes:
            self.network.unsettled[self] = None

    def retransmit(self) -> None:
        """The way is open again: what was parked arrives, or the kernel has long given up."""
        lasted_ns = self.network.world.now_ns - self.parked_since_ns
        if lasted_ns > RETRY_MS_MAX * NS_PER_MS:
            self.parked.clear()
            self.sender.take(Mark.RST)
            self.receiver.take(Mark.RST)
            return
        delay_ms = self.network.random.randint(*RETRANSMIT_MS)
        self.network.world.after_ms(delay_ms, self._flush)

    def _flush(self) -> None:
        if self.network.is_cut(*self.ends):
            self.network.parked[self] = None
            return
        parked, self.parked = self.parked, deque()
        for segment in parked:
            self._deliver(segment)


class Network:
    """All machines and everything between them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random("network")
        self.weather: list[NetworkOptions] = []
        self.machines: dict[str, Machine] = {}
        self.parked: dict[Pipe, None] = {}
        self.unsettled: dict[Pipe, None] = {}
        self._by_address: dict[str, Machine] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._hanging: list[tuple[Machine, Machine, Callable[[], None]]] = []
        self._connections = 0

    def add(self, name: str) -> Machine:
        number = len(self.machines) + 1
        machine = Machine(name, f"10.0.0.{number}")
        self.machines[name] = machine
        self._by_address[machine.address] = machine
        return machine

    def find(self, address: str) -> Machine | None:
        return self._by_address.get(address)

    def next_connection(self) -> int:
        self._connections += 1
        return self._connections

    # Weather

    def draw_delay_ns(self) -> int:
        return draw_delay_ns(self.weather[-1] if self.weather else CALM, self.random)

    def worsen(self, weather: NetworkOptions) -> None:
        """From now on, until `calm` with the same object or another one comes on top."""
        self.weather.append(weather)

    def calm(self, weather: NetworkOptions) -> None:
        self.weather = [other for other in self.weather if other is not weather]

    # Cuts

    def is_cut(self, source: Machine, target: Machine) -> bool:
        return (source.name, target.name) in self._cuts

    def cut(self, source: str, target: str) -> None:
        """Nothing from `source` reaches `target`. Cuts of one way add up; each is mended for itself."""
        self._cuts[(source, target)] = self._cuts.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        pair = (source, target)
        left = self._cuts.get(pair, 0) - 1
        if left > 0:
            self._cuts[pair] = left
            return
        self._cuts.pop(pair, None)
        for pipe in [p for p in self.parked if (p.ends[0].name, p.ends[1].name) == pair]:
            del self.parked[pipe]
            pipe.retransmit()
        for pipe in [p for p in self.unsettled if (p.ends[1].name, p.ends[0].name) == pair]:
            del self.unsettled[pipe]
            pipe.settle()
        hanging, self._hanging = self._hanging, []
        for sender, receiver, call in hanging:
            self.send_packet(sender, receiver, call)

    def mend_all(self) -> None:
        for source, target in list(self._cuts):
            self._cuts[(source, target)] = 1
            self.mend(source, target)

    def reset_between(self, one: str, other: str) -> int:
        """A middlebox forgets the connections of two machines. How many there were."""
        found = [
            channel
            for channel in self.machines[one].channels
            if channel.remote is not None and channel.remote.machine.name == other
        ]
        for channel in found:
            remote = channel.remote
            assert remote is not None
            channel.take(Mark.RST)
            remote.take(Mark.RST)
        return len(found)

    # Packets that belong to no connection yet

    def send_packet(self, source: Machine, target: Machine, call: Callable[[], None]) -> None:
        """Calls at the other end, when the packet gets there: never, while the way is cut or the machine
        off, unless that ends while somebody still waits for it."""

        def arrive() -> None:
            if self.is_cut(source, target):
                self._hanging.append((source, target, call))
            elif target.is_on:
                call()

        self.world.after_ns(self.draw_delay_ns(), arrive)

    # Ends of machines and processes

    def on_killed(self, channels: Iterator[SimChannel]) -> None:
        """The kernel of a killed process closes what it had open."""
        for channel in list(channels):
            channel.kernel_close()

    def power_off(self, machine: Machine) -> None:
        """Silence. Nothing that was not delivered by now will leave it."""
        machine.is_on = False
        for listener in list(machine.listeners.values()):
            listener.kernel_close(is_silent=True)
        for channel in list(machine.channels):
            channel.vanish()


def refused() -> OSError:
    return ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")


def reset() -> OSError:
    return ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
