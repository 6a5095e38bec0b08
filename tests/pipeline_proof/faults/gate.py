"""A TCP gate before each broker: what clients and brokers say to each other goes through it, frame by frame.

Brokers advertise their gates' addresses, so that nobody goes around. A gate passes on one request of a
connection at a time and then its answer, as a broker answers them: in order. It reads no more of a request
than its size, its API key and its correlation id.

What becomes of a Produce request is the weather's to say (storm.py): it may be lost on its way, its answer
may be lost after the broker has carried it out, or it may arrive late, after its sender has heard that the
connection broke and has asked again. That is all that TCP allows a network to do to a request.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from enum import Enum, auto

from localcluster.ports import LOOPBACK

PRODUCE = 0
FRAME_BYTES_MAX = 64 * 1024 * 1024
CONNECT_SECONDS_MAX = 5.0
_SIZE = struct.Struct(">i")
_API_KEY = struct.Struct(">h")


class Fate(Enum):
    """Of one request. All but PASS break the connection to its sender."""

    PASS = auto()
    LOSE = auto()
    """It never arrives."""
    LOSE_ANSWER = auto()
    """It is carried out; nobody hears of it."""
    LATE = auto()
    """The sender hears of a broken connection at once; the broker gets the request a little later."""


class Moment(Enum):
    """When something may strike, as seen from one Produce request."""

    BEFORE = auto()
    """The broker has not got it yet."""
    MIDDLE = auto()
    """The broker has it; nobody knows how far it came."""
    AFTER = auto()
    """The broker has answered; the sender does not know."""


class Weather:
    """What a gate asks. Everything is called from the gates' threads; the default lets everything pass."""

    late_seconds: float = 0.0

    def fate(self, *, broker_id: int, source_port: int, request: bytes) -> Fate:
        """Of a Produce request, before it is passed on. `source_port`: the sender's, which tells processes
        apart."""
        return Fate.PASS

    def at(self, moment: Moment, *, broker_id: int, source_port: int) -> None:
        """The request that `fate` was asked about last on this connection is at this moment."""


class Gate:
    """One broker's. `target` says where the broker listens, as soon as that is known."""

    def __init__(
        self, broker_id: int, port: int, target: Callable[[], tuple[str, int]], weather: Weather
    ) -> None:
        self.broker_id = broker_id
        self.port = port
        self.weather = weather
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_closed = False
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((LOOPBACK, port))
        self._listener.listen(128)
        self._threads = [threading.Thread(target=self._accept, name=f"gate-{broker_id}", daemon=True)]
        self._threads[0].start()

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def close(self) -> None:
        """Breaks every connection and waits for nobody who still sleeps over a late request."""
        with self._lock:
            self._is_closed = True
            held = [*self._open, self._listener]
            self._open.clear()
        for each in held:
            _end(each)

    def _accept(self) -> None:
        while True:
            try:
                client, (_, source_port) = self._listener.accept()
            except OSError:
                return
            if not self._keep(client):
                return
            threading.Thread(
                target=self._serve, args=(client, source_port), name=f"gate-{self.broker_id}", daemon=True
            ).start()

    def _keep(self, one: socket.socket) -> bool:
        """False, and closed, when the gate is."""
        with self._lock:
            if not self._is_closed:
                self._open.add(one)
                return True
        _end(one)
        return False

    def _drop(self, one: socket.socket) -> None:
        with self._lock:
            self._open.discard(one)
        _end(one)

    def _serve(self, client: socket.socket, source_port: int) -> None:
        broker: socket.socket | None = None
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            broker = socket.create_connection(self._target(), timeout=CONNECT_SECONDS_MAX)
            broker.settimeout(None)
            broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._keep(broker):
                while self._pass_one(client, broker, source_port):
                    pass
        except OSError:
            pass  # either end went away: so does the other
        finally:
            self._drop(client)
            if broker is not None:
                self._drop(broker)

    def _pass_one(self, client: socket.socket, broker: socket.socket, source_port: int) -> bool:
        """One request and its answer; False when the connection is to end."""
        request = read_frame(client)
        if request is None:
            return False
        if _API_KEY.unpack_from(request, _SIZE.size)[0] != PRODUCE:
            broker.sendall(request)
            answer = read_frame(broker)
            if answer is not None:
                client.sendall(answer)
            return answer is not None
        fate = self.weather.fate(broker_id=self.broker_id, source_port=source_port, request=request)
        if fate is Fate.LOSE:
            return False
        if fate is Fate.LATE:
            self._drop(client)
            threading.Event().wait(self.weather.late_seconds)
            broker.sendall(request)
            read_frame(broker)
            return False

        def at(moment: Moment) -> None:
            self.weather.at(moment, broker_id=self.broker_id, source_port=source_port)

        at(Moment.BEFORE)
        broker.sendall(request)
        at(Moment.MIDDLE)
        answer = read_frame(broker)
        at(Moment.AFTER)
        if answer is None or fate is Fate.LOSE_ANSWER:
            return False
        client.sendall(answer)
        return True


def read_frame(source: socket.socket) -> bytes | None:
    """A frame with its size in front, or None when the other end closed or sends what is no frame."""
    head = _read(source, _SIZE.size)
    if head is None:
        return None
    (size,) = _SIZE.unpack(head)
    if not _API_KEY.size <= size <= FRAME_BYTES_MAX:
        return None
    body = _read(source, size)
    return None if body is None else head + body


def _read(source: socket.socket, count: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < count:
        piece = source.recv(min(count - len(pieces), 1 << 20))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)


def _end(one: socket.socket) -> None:
    """Also wakes a thread that reads from it, which closing alone does not."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
