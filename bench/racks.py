"""Brokers in racks apart: what they say to each other takes a millisecond longer each way.
`python -m bench.racks` is the forwarder.

    load --------------------------> broker's listener for clients
    other brokers --> forwarder, 1 ms --> its listener INTERNAL

One forwarding process for all brokers of a side listens where each says that it is reached by others, and
passes bytes on in both directions, later. It copies in Python and shares the machine with the brokers, on
both sides in the same way; its processor time is in no figure.
"""

from __future__ import annotations

import selectors
import socket
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import TracebackType
from typing import Final, Self

from localcluster.ports import LOOPBACK, PortReservation, is_accepting
from localcluster.processes import ProcessCommand, ProcessPlace, SupervisedProcess

DELAY_S: Final = 0.001
CHUNK_BYTES: Final = 256 * 1024
INTERNAL: Final = "INTERNAL"


class Racks:
    """The forwarder of a side, while it is open. inner: where each broker listens for others; outer: where
    they reach it."""

    def __init__(self, broker_ids: Iterable[int]) -> None:
        self._broker_ids = tuple(broker_ids)
        self._ports = PortReservation()
        self.inner: dict[int, int] = {}
        self.outer: dict[int, int] = {}
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.enter_context(self._ports)
            folder = Path(starting.enter_context(TemporaryDirectory(prefix="bench-racks-")))
            for ports in (self.inner, self.outer):
                ports |= {broker_id: self._ports.reserve_free() for broker_id in self._broker_ids}
            pairs = [f"{self.outer[broker_id]}:{self.inner[broker_id]}" for broker_id in self._broker_ids]
            arguments = [sys.executable, "-m", "bench.racks", *pairs]
            process = SupervisedProcess(
                name="forwarder between racks",
                command=ProcessCommand(arguments=arguments, working_directory=Path(__file__).parent.parent),
                log_path=folder / "forwarder.log",
            )
            process.start()
            starting.callback(process.stop)
            process.wait_ready(lambda: all(is_accepting(port) for port in self.outer.values()))
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def listeners(self, broker_id: int, clients: str) -> dict[str, str]:
        """Return a broker's listeners: that for clients at its address, and INTERNAL behind the forwarder."""
        both = {
            "listeners": f"CLIENTS://{clients},{INTERNAL}://{LOOPBACK}:{self.inner[broker_id]}",
            "advertised.listeners": f"CLIENTS://{clients},{INTERNAL}://{LOOPBACK}:{self.outer[broker_id]}",
        }
        return {**both, "inter.broker.listener.name": INTERNAL}

    def place_of(self, host: str) -> ProcessPlace:
        kind, _, number = host.partition("-")
        return _Apart(racks=self, broker_id=int(number)) if kind == "broker" else ProcessPlace()


@dataclass(frozen=True)
class _Apart(ProcessPlace):
    """The place of a broker of ours, whose command gets the listeners instead of `--listen`."""

    racks: Racks | None = None
    broker_id: int = 0

    def run(self, command: ProcessCommand) -> ProcessCommand:
        assert self.racks is not None
        arguments = list(command.arguments)
        at = arguments.index("--listen")
        listeners = self.racks.listeners(self.broker_id, arguments[at + 1])
        protocols = {"listener.security.protocol.map": f"CLIENTS:PLAINTEXT,{INTERNAL}:PLAINTEXT"}
        arguments[at : at + 2] = _flags({**listeners, **protocols})
        return ProcessPlace.run(self, replace(command, arguments=arguments))


def _flags(configs: Mapping[str, str]) -> list[str]:
    return [flag for key, value in configs.items() for flag in ("--config", f"{key}={value}")]


# --- the process ------------------------------------------------------------------------------------------


class _Direction:
    """Bytes from one connection to another, each piece with the time at which it goes on. Brokers wait for
    answers before they ask for more, which bounds what is held."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.held: deque[tuple[float, memoryview]] = deque()
        self.is_full = self.is_over = False
        """is_full: the target takes no more for now."""

    def receive(self, now: float) -> None:
        try:
            piece = self.source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            piece = b""
        self.is_over = not piece
        if piece:
            self.held.append((now + DELAY_S, memoryview(piece)))

    def send(self, now: float) -> None:
        """Pass on what is due."""
        while self.held and self.held[0][0] <= now:
            due_at, piece = self.held.popleft()
            try:
                sent = self.target.send(piece)
            except BlockingIOError:
                sent = 0
            except ConnectionError:
                self.held.clear()
                self.is_over = True
                return
            if sent < len(piece):
                self.held.appendleft((due_at, piece[sent:]))
                self.is_full = True
                return


class _Forwarder:
    """All directions on one selector. `select` waits for fractions of a millisecond, which epoll does not."""

    def __init__(self, inner_of: Mapping[int, int]) -> None:
        self._selector = selectors.SelectSelector()
        self._directions: list[_Direction] = []
        for outer, inner in inner_of.items():
            server = socket.create_server((LOOPBACK, outer))
            self._selector.register(server, selectors.EVENT_READ, inner)

    def serve(self) -> None:
        while True:
            due = [one.held[0][0] for one in self._directions if one.held and not one.is_full]
            wait_s = max(0.0, min(due) - perf_counter()) if due else None
            for key, events in self._selector.select(wait_s):
                if isinstance(key.data, int):
                    self._accept(key.fileobj, key.data)  # type: ignore[arg-type]
                    continue
                incoming, outgoing = key.data
                if events & selectors.EVENT_READ:
                    incoming.receive(perf_counter())
                if events & selectors.EVENT_WRITE:
                    outgoing.is_full = False
                    self._selector.modify(key.fileobj, selectors.EVENT_READ, key.data)
            for one in list(self._directions):
                self._pass_on(one)

    def _accept(self, server: socket.socket, inner: int) -> None:
        client, _ = server.accept()
        try:
            broker = socket.create_connection((LOOPBACK, inner))
        except OSError:
            client.close()
            return
        there, back = _Direction(client, broker), _Direction(broker, client)
        for end, directions in ((client, (there, back)), (broker, (back, there))):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setblocking(False)
            self._selector.register(end, selectors.EVENT_READ, directions)
        self._directions += (there, back)

    def _pass_on(self, one: _Direction) -> None:
        if one not in self._directions:
            return
        if not one.is_full:
            one.send(perf_counter())
            if one.is_full:
                both = selectors.EVENT_READ | selectors.EVENT_WRITE
                self._selector.modify(one.target, both, self._selector.get_key(one.target).data)
        if one.is_over and not one.held:
            ends = (one.source, one.target)
            for end in ends:
                self._selector.unregister(end)
                end.close()
            self._directions = [other for other in self._directions if other.source not in ends]


def main() -> None:
    _Forwarder(
        {int(outer): int(inner) for outer, inner in (pair.split(":") for pair in sys.argv[1:])}
    ).serve()


if __name__ == "__main__":
    main()
