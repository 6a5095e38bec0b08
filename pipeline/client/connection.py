"""One blocking connection to one broker. Requests may be sent ahead; answers come back in their order (Kafka
answers a connection's requests in the order they came).

Every wait has a deadline, every claimed size a bound, and any failure ends the connection: after half a frame
nothing more can be understood. Every failure is ConnectionLost, because the consequence for the caller is the
same: the request may have been carried out.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.client.config import Address, ClientConfig
from pipeline.client.errors import ConnectionLost, MalformedAnswer
from pipeline.client.messages import SPOKEN, check_spoken, decode_body, encode_body, parse_api_versions
from springtide.wire.apis import ApiKey
from springtide.wire.compression import Buffer
from springtide.wire.headers import decode_response_header, encode_request_header
from springtide.wire.primitives import MalformedRequest

_SIZE = struct.Struct(">i")
_SIZE_BYTES = 4
_CORRELATION_IDS = 2**31
_PIECES_MAX = 512
"""Pieces of one sendmsg: IOV_MAX is 1024 on Linux, and at least 16 anywhere."""


def now_ms() -> int:
    """Return milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000


class BrokerConnection:
    """Use from one thread. `send` and `receive` in pairs, or `call`; `close` at the end never fails."""

    def __init__(self, address: Address, config: ClientConfig) -> None:
        """Connect and read the API versions of the broker. Raises ConnectionLost."""
        self.address = address
        self._config = config
        self._where = f"{address[0]}:{address[1]}"
        self._correlation_id = 0
        self._asked: deque[tuple[int, ApiKey]] = deque()
        self._socket: socket.socket | None = None
        self._answer_timeout_ms = config.connect_timeout_ms
        self._deadline_ms = now_ms() + config.connect_timeout_ms
        try:
            self._socket = socket.create_connection(address, timeout=config.connect_timeout_ms / 1000)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            self.close()
            raise ConnectionLost(f"broker {self._where}: {error}") from error
        self._versions: dict[int, tuple[int, int]] = {}
        self._versions = parse_api_versions(self.call(ApiKey.API_VERSIONS, {}))
        self._answer_timeout_ms = config.request_timeout_ms

    # --- requests -------------------------------------------------------------------------------------

    def call(self, api: ApiKey, fields: Mapping[str, object], *, broker_wait_ms: int = 0) -> Any:
        """Send a request, wait, and return the answer as kio's message. Raises ConnectionLost,
        UnsupportedBroker."""
        self.send(api, [encode_body(api, fields)])
        frame, position = self.receive(broker_wait_ms=broker_wait_ms)
        try:
            return decode_body(api, frame, position)
        except MalformedAnswer:
            self.close()
            raise

    def send(self, api: ApiKey, body: Sequence[Buffer]) -> None:
        """Send a request without waiting for its answer. Raises ConnectionLost, UnsupportedBroker.

        The broker must not need us to read answers before it reads this: callers keep few requests ahead.
        """
        if api is not ApiKey.API_VERSIONS:
            check_spoken(api, self._versions, self._where)
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        head = encode_request_header(
            api_key=api,
            api_version=SPOKEN[api],
            correlation_id=self._correlation_id,
            client_id=self._config.client_id,
        )
        pieces = [memoryview(piece).cast("B") for piece in (head, *body)]
        size = sum(piece.nbytes for piece in pieces)
        self._deadline_ms = now_ms() + self._answer_timeout_ms
        self._send_all([memoryview(_SIZE.pack(size)), *pieces])
        self._asked.append((self._correlation_id, api))

    def receive(self, *, broker_wait_ms: int = 0) -> tuple[memoryview, int]:
        """Return the next answer's frame and the position of its body. Raises ConnectionLost.

        `broker_wait_ms`: how long the request lets the broker wait; the request timeout comes on top.
        """
        expected, api = self._asked[0]
        self._deadline_ms = now_ms() + self._answer_timeout_ms + broker_wait_ms
        frame = self._receive_frame()
        self._asked.popleft()
        try:
            correlation_id, position = decode_response_header(frame, api_key=api, api_version=SPOKEN[api])
        except MalformedRequest as error:
            raise self._lost(MalformedAnswer, str(error)) from error
        if correlation_id != expected:
            raise self._lost(MalformedAnswer, f"answer {correlation_id} where {expected} was due")
        return frame, position

    # --- state ----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def is_reusable(self) -> bool:
        """Return whether the connection is open, has no answer under way, and the broker has not closed
        it."""
        if self._socket is None or self._asked:
            return False
        poll = select.poll()  # not select.select, which knows no descriptor above 1023
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def fileno(self) -> int:
        """Return the descriptor, to select among connections. Raises ConnectionLost if the connection is
        closed."""
        if self._socket is None:
            raise ConnectionLost(f"broker {self._where}: connection closed")
        return self._socket.fileno()

    def close(self) -> None:
        held, self._socket = self._socket, None
        self._asked.clear()
        if held is not None:
            held.close()

    def __str__(self) -> str:
        return self._where

    # --- bytes ----------------------------------------------------------------------------------------

    def _send_all(self, pieces: list[memoryview]) -> None:
        held = [piece for piece in pieces if piece.nbytes]
        first = 0
        while first < len(held):
            connected = self._within_deadline()
            try:
                sent = connected.sendmsg(held[first : first + _PIECES_MAX])
            except OSError as error:
                raise self._lost(ConnectionLost, str(error) or type(error).__name__) from error
            while first < len(held) and sent >= held[first].nbytes:
                sent -= held[first].nbytes
                first += 1
            if sent:
                held[first] = held[first][sent:]

    def _receive_frame(self) -> memoryview:
        head = bytearray(_SIZE_BYTES)
        self._receive_into(memoryview(head))
        (size,) = _SIZE.unpack(head)
        if not _SIZE_BYTES <= size <= self._config.answer_max_bytes:
            raise self._lost(
                MalformedAnswer,
                f"an answer of {size} bytes is not within {_SIZE_BYTES} and {self._config.answer_max_bytes}",
            )
        # Not cleared, so pages are touched only as bytes arrive: a claim alone buys no memory. A bytearray is
        # written twice, and one that grows with what arrives is copied as well: 5 ms for 8 MB, not 1.6.
        frame = np.empty(size, np.uint8).data
        self._receive_into(frame)
        return frame.toreadonly()

    def _receive_into(self, room: memoryview) -> None:
        while room:
            connected = self._within_deadline()
            try:
                count = connected.recv_into(room)
            except OSError as error:
                raise self._lost(ConnectionLost, str(error) or type(error).__name__) from error
            if count == 0:
                raise self._lost(ConnectionLost, "the broker closed the connection")
            room = room[count:]

    def _within_deadline(self) -> socket.socket:
        """Return the socket with its timeout set to the time left."""
        if self._socket is None:
            raise ConnectionLost(f"broker {self._where}: connection closed")
        left_ms = self._deadline_ms - now_ms()
        if left_ms <= 0:
            raise self._lost(ConnectionLost, "no answer in time")
        self._socket.settimeout(left_ms / 1000)
        return self._socket

    def _lost(self, kind: type[ConnectionLost], reason: str) -> ConnectionLost:
        self.close()
        return kind(f"broker {self._where}: {reason}")
