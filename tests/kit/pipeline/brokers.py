"""Brokers on loopback that say what a test tells them to: real sockets, the protocol's own bytes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import UUID

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.messages import SPOKEN
from pipeline.client.pool import ConnectionPool
from springtide.wire.apis import ApiKey, response_header_version
from springtide.wire.codec import build, decode, encode, request_type, response_type
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import encode_response_frame
from springtide.wire.headers import decode_request_header
from tests.kit.clocks import ManualClock

Fields = Mapping[str, object]


class Body(NamedTuple):
    """An answer's body, encoded: for tags that the general codec does not know."""

    data: bytes


Says = Fields | Body | bytes | None
"""Fields of an answer, its body, raw bytes to send instead of a frame, or None: hang up."""
Handler = Callable[[Any], Says]

EVERYTHING: Fields = {
    "api_keys": [{"api_key": int(api), "min_version": 0, "max_version": 99} for api in SPOKEN]
}


class ScriptedBroker:
    """Listens while it is entered. `handlers` answer by API; ApiVersions is answered unless one is given.
    context: it speaks TLS."""

    def __init__(self, handlers: Mapping[ApiKey, Handler], *, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self.handlers: dict[ApiKey, Handler] = {ApiKey.API_VERSIONS: lambda _: EVERYTHING, **handlers}
        self.asked: list[tuple[ApiKey, Any]] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    def times_asked(self, api: ApiKey) -> int:
        return sum(one == api for one, _ in self.asked)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_over = True
            held = list(self._sockets)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in held:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()

    def _start(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_over:
                    connected.close()
                    return
                self._sockets.append(connected)
                self.connections += 1
            self._start(lambda one=connected: self._serve(one))  # type: ignore[misc]

    def _serve(self, connected: socket.socket) -> None:
        if self._context is not None:
            try:
                connected = self._context.wrap_socket(connected, server_side=True)
            except OSError:
                return
            with self._lock:
                self._sockets.append(connected)
        with connected, connected.makefile("rb") as incoming:
            try:
                while True:
                    head = incoming.read(4)
                    if len(head) < 4:
                        return
                    frame = incoming.read(struct.unpack(">i", head)[0])
                    if not self._answer(connected, frame):
                        return
            except OSError:
                return

    def _answer(self, connected: socket.socket, frame: bytes) -> bool:
        header = decode_request_header(frame)
        api = ApiKey(header.api_key)
        version = header.api_version
        message = decode(request_type(api, version), frame, header.body_position)
        self.asked.append((api, message))
        says = self.handlers[api](message)
        if says is None:
            return False
        if isinstance(says, bytes):
            connected.sendall(says)
            return True
        body = says.data if isinstance(says, Body) else encode(build(response_type(api, version), says))
        chunks = encode_response_frame(
            header.correlation_id,
            [body],
            has_flexible_header=response_header_version(api, version) == 1,
        )
        for chunk in chunks:
            assert isinstance(chunk, bytes)
            connected.sendall(chunk)
        return True


def in_turn(*says: Says | Handler) -> Handler:
    """Answers one after another; the last one stays."""
    left = list(says)

    def handle(message: Any) -> Says:
        one = left.pop(0) if len(left) > 1 else left[0]
        return one(message) if callable(one) else one

    return handle


def metadata_of(
    brokers: Mapping[int, ScriptedBroker],
    leaders: Mapping[tuple[str, int], int],
    *,
    errors: Mapping[str, int] | None = None,
    ids: Mapping[str, UUID] | None = None,
) -> Fields:
    """An answer to Metadata: every partition led and replicated as told."""
    topics: dict[str, list[Fields]] = {}
    for (topic, partition), leader in leaders.items():
        topics.setdefault(topic, []).append(
            {
                "partition_index": partition,
                "leader_id": leader,
                "leader_epoch": 3,
                "replica_nodes": tuple(brokers),
                "isr_nodes": tuple(brokers),
            }
        )
    return {
        "brokers": [
            {"node_id": number, "host": broker.address[0], "port": broker.address[1], "rack": None}
            for number, broker in brokers.items()
        ],
        "cluster_id": "c",
        "topics": [
            *(
                {"name": topic, "topic_id": (ids or {}).get(topic), "partitions": rows}
                for topic, rows in topics.items()
            ),
            *({"name": topic, "error_code": code} for topic, code in (errors or {}).items()),
        ],
    }


class Cluster:
    """Two scripted brokers, and a client of the first. Partition 0 is led by 1, partition 1 by 2."""

    def __init__(self, stack: ExitStack) -> None:
        self.brokers = {number: stack.enter_context(ScriptedBroker({})) for number in (1, 2)}
        self.pool = ConnectionPool()
        stack.callback(self.pool.close)
        self.clock = ManualClock(0)
        self.lead({("t", 0): 1, ("t", 1): 2})

    def lead(self, *leaders: dict[tuple[str, int], int], errors: dict[str, int] | None = None) -> None:
        """Set what Metadata says, in turn."""
        says = in_turn(*(metadata_of(self.brokers, one, errors=errors) for one in leaders))
        self.on(ApiKey.METADATA, says)

    def name(self, *ids: Mapping[str, UUID], leaders: dict[tuple[str, int], int]) -> None:
        """Set the topics' ids that Metadata says, in turn."""
        self.on(ApiKey.METADATA, in_turn(*(metadata_of(self.brokers, leaders, ids=one) for one in ids)))

    def on(self, api: ApiKey, first: Handler, second: Handler | None = None) -> None:
        self.brokers[1].handlers[api] = first
        self.brokers[2].handlers[api] = second or first

    def client(self, **config: Any) -> Client:
        values = {
            "bootstrap": (self.brokers[1].address,),
            "request_timeout_ms": 5_000,
            "fetch_max_wait_ms": 10,
            **config,
        }
        return Client(
            ClientConfig(**values), pool=self.pool, clock_ms=self.clock.mono_ms, sleep_s=self.clock.sleep_s
        )


def produced(error: ErrorCode = ErrorCode.NONE, base_offset: int = 0) -> Handler:
    def handle(message: Any) -> Says:
        return {
            "responses": [
                {
                    "name": topic.name,
                    "partition_responses": [
                        {"index": one.index, "error_code": error, "base_offset": base_offset}
                        for one in topic.partition_data
                    ],
                }
                for topic in message.topic_data
            ]
        }

    return handle
