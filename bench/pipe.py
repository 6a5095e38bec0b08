"""The machine's limit: a leader and two followers that only copy. `python -m bench pipe lead|follow`.

    load --> leader --> follower, which counts
                 `----> follower, which counts

Each is one process with one plain loop of receive and send over loopback; nothing is checked, stored or
replicated. The leader answers a Produce request when both followers have counted its last byte. It speaks as
much of the protocol as the raw load needs, so the same load runs against it as against brokers, and its row
is what the machine can move at most in this way.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from bench.protocol import VERSIONS
from localcluster.ports import LOOPBACK, PortReservation, is_accepting
from localcluster.processes import ProcessCommand, SupervisedProcess
from springtide.wire.apis import ApiKey
from springtide.wire.codec import build, decode, encode, request_type, response_type
from springtide.wire.framing import encode_request_frame
from springtide.wire.headers import decode_request_header
from springtide.wire.produce import encode_produce_frame

NAME: Final = "pipe"
CHUNK_BYTES: Final = 256 * 1024
FOLLOWERS: Final = 2
_HEAD = struct.Struct(">ihhi")
"""Of a request: size, API key, version, correlation id."""
_COUNT = struct.Struct(">q")
_ID = struct.Struct(">i")
_PROJECT = Path(__file__).parent.parent


class Pipe:
    """The three processes, as a side."""

    name = NAME
    ca_file = cert_file = None
    controller_pids: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.bootstrap_servers = ""
        self._processes: list[SupervisedProcess] = []
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            ports = starting.enter_context(PortReservation())
            folder = Path(starting.enter_context(TemporaryDirectory(prefix="bench-pipe-")))
            leader, *followers = (ports.reserve_free() for _ in range(1 + FOLLOWERS))
            self.bootstrap_servers = f"{LOOPBACK}:{leader}"
            for role, given in (*(("follow", [port]) for port in followers), ("lead", [leader, *followers])):
                arguments = [sys.executable, "-m", "bench", "pipe", role, *map(str, given)]
                process = SupervisedProcess(
                    name=f"pipe {role} {given[0]}",
                    command=ProcessCommand(arguments=arguments, working_directory=_PROJECT),
                    log_path=folder / f"{given[0]}.log",
                )
                process.start()
                starting.callback(process.stop)
                process.wait_ready(lambda port=given[0]: is_accepting(port))  # type: ignore[misc]
                self._processes.append(process)
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    @property
    def broker_pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes if process.pid is not None)

    def broker_process(self, number: int) -> SupervisedProcess:
        return self._processes[number - 1]

    def create_topic(
        self, topic: str, *, partitions: int, retention_bytes: int, configs: Mapping[str, str] = {}
    ) -> None:
        """Nothing: the leader learns the topic's name from the load."""

    def delete_topic(self, topic: str) -> None: ...


# --- the processes ----------------------------------------------------------------------------------------


def follow(port: int) -> None:
    """Receive, and say how many bytes there were so far; one connection at a time."""
    buffer = bytearray(CHUNK_BYTES)
    with socket.create_server((LOOPBACK, port)) as server:
        while True:
            connected, _ = server.accept()
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            counted = 0
            with connected:
                while taken := connected.recv_into(buffer):
                    counted += taken
                    connected.sendall(_COUNT.pack(counted))


class _Client:
    """A load's connection and where its stream is within a request."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.head = bytearray()
        self.body = bytearray()
        self.left = 0
        """Bytes of the request that are still to come after its head."""

    def answer(self, frame: bytes) -> None:
        """Send it, or find that the load has measured enough and left: the next read sees it, too."""
        with suppress(ConnectionError):
            self.socket.sendall(frame)


class _Leader:
    """Copies what clients send to each follower, in the order in which it came."""

    def __init__(self, port: int, follower_ports: list[int]) -> None:
        self._buffer = bytearray(CHUNK_BYTES)
        self._view = memoryview(self._buffer)
        self._port, self._copied, self._topic = port, 0, ""
        self._waiting: deque[tuple[int, _Client, int]] = deque()
        """(bytes that both followers must have counted, client, correlation id), rising."""
        self._selector = selectors.DefaultSelector()
        self._counted: dict[socket.socket, int] = {}
        for follower_port in follower_ports:
            follower = socket.create_connection((LOOPBACK, follower_port))
            follower.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._counted[follower] = 0
            self._selector.register(follower, selectors.EVENT_READ)

    def serve(self) -> None:
        with socket.create_server((LOOPBACK, self._port)) as server:
            self._selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is server:
                        connected, _ = server.accept()
                        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        self._selector.register(connected, selectors.EVENT_READ, _Client(connected))
                    elif key.data is None:
                        self._on_count(key.fileobj)  # type: ignore[arg-type]
                    else:
                        self._on_bytes(key.data)

    def _on_bytes(self, client: _Client) -> None:
        try:
            taken = client.socket.recv_into(self._buffer)
        except ConnectionError:
            taken = 0
        if not taken:
            self._selector.unregister(client.socket)
            client.socket.close()
            self._waiting = deque(one for one in self._waiting if one[1] is not client)
            return
        chunk = self._view[:taken]
        for follower in self._counted:
            follower.sendall(chunk)
        begin, self._copied = self._copied, self._copied + taken
        position = 0
        while position < taken:
            position = self._walk(client, chunk, position, begin)

    def _walk(self, client: _Client, chunk: memoryview, position: int, begin: int) -> int:
        """Take as much of one request as the chunk has from `position` on; return where it ends."""
        if len(client.head) < _HEAD.size:
            end = min(len(chunk), position + _HEAD.size - len(client.head))
            client.head += chunk[position:end]
            if len(client.head) == _HEAD.size:
                client.left = _HEAD.unpack(client.head)[0] - (_HEAD.size - _ID.size)
            return end
        _, api_key, _, correlation_id = _HEAD.unpack(client.head)
        end = min(len(chunk), position + client.left)
        client.left -= end - position
        if api_key != ApiKey.PRODUCE:
            client.body += chunk[position:end]
        if not client.left:
            if api_key == ApiKey.PRODUCE:
                self._waiting.append((begin + end, client, correlation_id))
            else:
                self._answer_metadata(client, correlation_id)
            client.head.clear()
            client.body.clear()
        return end

    def _on_count(self, follower: socket.socket) -> None:
        counts = follower.recv(64 * _COUNT.size)
        while len(counts) % _COUNT.size:
            counts += follower.recv(_COUNT.size - len(counts) % _COUNT.size)
        if not counts:
            sys.exit("a follower is gone")
        self._counted[follower] = _COUNT.unpack(counts[-_COUNT.size :])[0]
        common = min(self._counted.values())
        while self._waiting and self._waiting[0][0] <= common:
            _, client, correlation_id = self._waiting.popleft()
            client.answer(
                encode_produce_frame(
                    VERSIONS[ApiKey.PRODUCE],
                    topic=self._topic,
                    correlation_id=correlation_id,
                    partition=0,
                    base_offset=0,
                    log_append_time_ms=-1,
                    log_start_offset=0,
                )
            )

    def _answer_metadata(self, client: _Client, correlation_id: int) -> None:
        """This process leads the one partition of the topic that is asked about."""
        frame = memoryview(bytes(client.head[_ID.size :] + client.body))
        version = VERSIONS[ApiKey.METADATA]
        position = decode_request_header(frame).body_position
        asked: Any = decode(request_type(ApiKey.METADATA, version), frame, position)
        self._topic = asked.topics[0].name
        partition = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
        fields = {
            "brokers": [{"node_id": 1, "host": LOOPBACK, "port": self._port}],
            "controller_id": 1,
            "topics": [{"name": self._topic, "is_internal": False, "partitions": [partition]}],
        }
        answer = encode(build(response_type(ApiKey.METADATA, version), fields))
        client.answer(encode_request_frame(_ID.pack(correlation_id), answer))


def main(arguments: Sequence[str]) -> None:
    role, port, *others = arguments
    if role == "follow":
        follow(int(port))
    _Leader(int(port), [int(other) for other in others]).serve()
