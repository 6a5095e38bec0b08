"""A raw connection to a broker's port, for tests that send what no client library would."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self

from localcluster.ports import LOOPBACK

ANSWER_SECONDS_MAX = 20.0
"""The rule is one second; the rest is what a loaded two-core machine may add."""


class Closed(Exception):
    """The broker closed the connection."""


class Wire:
    """Sends bytes, reads frames."""

    def __init__(self, port: int, *, address: str = LOOPBACK) -> None:
        self._socket = socket.create_connection((address, port), timeout=ANSWER_SECONDS_MAX)

    def send(self, raw: bytes) -> None:
        try:
            self._socket.sendall(raw)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def finish_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def receive(self) -> bytes:
        """One frame without its size.

        Raises:
            Closed: instead of an answer.
            TimeoutError: neither an answer nor a close in time.
        """
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed_by_broker(self) -> bool:
        """Waits for the close. Anything else that comes is a failure."""
        try:
            unexpected = self.receive()
        except Closed:
            return True
        raise AssertionError(f"expected a close, got {unexpected[:64]!r}")

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                chunk = self._socket.recv(count - len(received))
            except ConnectionResetError as error:
                raise Closed from error
            if not chunk:
                raise Closed
            received += chunk
        return bytes(received)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
