"""One blocking connection to one broker. Requests may be sent ahead; answers come back in their order (Kafka
answers a connection's requests in the order they came).

Every wait has a deadline, every claimed size a bound, and any failure ends the connection: after half a frame
nothing more can be understood. Every failure is ConnectionLost, because the consequence for the caller is the
same: the request may have been carried out. Where the reason is certain and another try can't succeed (a
certificate or a password is refused), it is AccessRefused instead.

Over TLS, one answer is read whole before the next request is sent, so no bytes of a later answer wait inside
the socket, where a poll does not see them.
"""

from __future__ import annotations

import random
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pipeline.client.config import Address, ClientConfig
from pipeline.client.errors import AccessRefused, ClientError, ConnectionLost, MalformedAnswer
from pipeline.client.login import log_in, without_sasl
from pipeline.client.messages import SPOKEN, check_spoken, decode_body, encode_body
from pipeline.client.tls import (
    certain_advice,
    is_alert,
    joined_writes,
    last_word,
    secure,
    tls_wanted,
    why_it_may_have_hung_up,
)
from springtide.wire.apis import ApiKey
from springtide.wire.client import WireClient, answer_size, speaks, spoken_versions
from springtide.wire.compression import Buffer
from springtide.wire.framing import SIZE_BYTES, FrameError
from springtide.wire.primitives import MalformedRequest

E = TypeVar("E", bound=ClientError)
_PIECES_MAX = 512
"""Pieces of one sendmsg: IOV_MAX is 1024 on Linux, and at least 16 anywhere."""
_RENEWED_AT = (0.85, 0.95)
"""Part of a session's lifetime after which the client authenticates again. It is drawn anew each time, as by
Kafka's clients (KIP-368): many clients must not come at once."""


def now_ms() -> int:
    """Return milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000


class BrokerConnection:
    """Use from one thread. `send` and `receive` in pairs, or `call`; `close` at the end never fails."""

    def __init__(self, address: Address, config: ClientConfig) -> None:
        """Connect, read the API versions of the broker, and log in. Raises ConnectionLost, AccessRefused,
        UnsupportedBroker, InvalidClientOption."""
        self.address = address
        self._config = config
        self._where = f"{address[0]}:{address[1]}"
        self._client: WireClient[None] = WireClient(
            config.client_id, answer_bytes_max=config.answer_max_bytes
        )
        self._socket: socket.socket | None = None
        #: Sends some of the pieces in front and returns how many bytes.
        self._send_some: Callable[[Sequence[memoryview]], int]
        #: Whether the broker has answered anything but ApiVersions, which it tells every client.
        self._is_known = False
        self._renew_at_ms: int | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._answer_timeout_ms = config.connect_timeout_ms
        self._deadline_ms = now_ms() + config.connect_timeout_ms
        try:
            self._open()
            self._versions = spoken_versions(self.call(ApiKey.API_VERSIONS, {}))
            self._log_in()
        except ClientError:
            self.close()
            raise
        self._answer_timeout_ms = config.request_timeout_ms

    def _open(self) -> None:
        security, host = self._config.security, self.address[0]
        timeout_s = self._config.connect_timeout_ms / 1000
        try:
            connected = self._socket = socket.create_connection(self.address, timeout=timeout_s)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send_some = connected.sendmsg
        except OSError as error:
            raise self._lost(ConnectionLost, str(error)) from error
        if security.tls is None:
            return
        try:
            secured = self._socket = secure(connected, host, security)
            self._send_some = joined_writes(secured)
        except AccessRefused as error:
            raise self._lost(AccessRefused, str(error)) from error
        except OSError as error:
            hint = why_it_may_have_hung_up(security, is_handshake=True)
            raise self._lost(ConnectionLost, f"TLS: {_told(error)} ({hint})") from error

    def _log_in(self) -> None:
        """Authenticate, where the options say as whom. Plan the next time, if the session has an end."""
        self._renew_at_ms = None
        security = self._config.security
        if security.login is None:
            return
        if ApiKey.SASL_HANDSHAKE not in self._versions:
            raise self._lost(AccessRefused, without_sasl(security))
        try:
            lifetime_ms = log_in(security, security.login, self.call)
        except AccessRefused as error:
            raise self._lost(AccessRefused, str(error)) from error
        if lifetime_ms > 0:
            self._renew_at_ms = now_ms() + int(lifetime_ms * random.uniform(*_RENEWED_AT))

    # --- requests -------------------------------------------------------------------------------------

    def call(self, api: ApiKey, fields: Mapping[str, object]) -> Any:
        """Send a request, wait, and return the answer. Raises ConnectionLost, UnsupportedBroker."""
        self.send(api, [encode_body(api, fields)])
        frame, position = self.receive()
        try:
            return decode_body(api, frame, position)
        except MalformedAnswer:
            self.close()
            raise

    def speaks(self, api: ApiKey, version: int) -> bool:
        """Return whether the broker speaks this version of the API."""
        return speaks(self._versions, api, version)

    def send(self, api: ApiKey, body: Sequence[Buffer], *, version: int | None = None) -> None:
        """Send a request without waiting for its answer. Raises ConnectionLost, AccessRefused,
        UnsupportedBroker.

        `version`: of the body, where it is not the one in SPOKEN; the caller has asked whether the broker
        `speaks` it. Both must have the same kind of header.

        The broker must not need us to read answers before it reads this: callers keep few requests ahead.
        Where the session is about to end and no answer is under way, the client authenticates again before.
        """
        if self._renew_at_ms is not None and not self._client.in_flight and now_ms() >= self._renew_at_ms:
            self._log_in()
        if api is not ApiKey.API_VERSIONS and version is None:
            check_spoken(api, self._versions, self._where)
        pieces = self._client.ask(api, SPOKEN[api] if version is None else version, body, None)
        self._deadline_ms = now_ms() + self._answer_timeout_ms
        self._send_all([memoryview(piece).cast("B") for piece in pieces])

    def receive(self, *, broker_wait_ms: int = 0) -> tuple[memoryview, int]:
        """Return the next answer's frame and the position of its body. Raises ConnectionLost.

        `broker_wait_ms`: how long the request lets the broker wait; the request timeout comes on top.
        """
        self._deadline_ms = now_ms() + self._answer_timeout_ms + broker_wait_ms
        frame = self._receive_frame()
        try:
            answer = self._client.answer_in(frame)
        except MalformedRequest as error:
            raise self._lost(MalformedAnswer, str(error)) from error
        self._is_known = self._is_known or answer.asked.api_key != ApiKey.API_VERSIONS
        return frame, answer.position

    # --- state ----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def is_reusable(self) -> bool:
        """Return whether the connection is open, has no answer under way, and the broker has not closed
        it."""
        if self._socket is None or self._client.in_flight:
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
        if held is not None:
            held.close()

    def __str__(self) -> str:
        return self._where

    # --- bytes ----------------------------------------------------------------------------------------

    def _send_all(self, pieces: list[memoryview]) -> None:
        held = [piece for piece in pieces if piece.nbytes]
        first = 0
        while first < len(held):
            self._within_deadline()
            try:
                sent = self._send_some(held[first : first + _PIECES_MAX])
            except OSError as error:
                raise self._failed(last_word(self._socket, error)) from error
            while first < len(held) and sent >= held[first].nbytes:
                sent -= held[first].nbytes
                first += 1
            if sent:
                held[first] = held[first][sent:]

    def _receive_frame(self) -> memoryview:
        head = bytearray(SIZE_BYTES)
        self._receive_into(memoryview(head))
        try:
            size = answer_size(head, answer_bytes_max=self._config.answer_max_bytes)
        except FrameError as error:
            if self._config.security.tls is None and is_alert(head):
                raise self._lost(AccessRefused, tls_wanted(self._config.security)) from error
            raise self._lost(MalformedAnswer, str(error)) from error
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
                raise self._failed(error) from error
            if count == 0:
                raise self._hung_up("the broker closed the connection")
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

    def _failed(self, error: OSError) -> ClientError:
        """Return the error of a send or a receive that failed."""
        advice = certain_advice(error, self._config.security, self.address[0])
        if advice is not None:
            return self._lost(AccessRefused, advice)
        if isinstance(error, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError):
            return self._hung_up(_told(error))
        return self._lost(ConnectionLost, _told(error))

    def _hung_up(self, reason: str) -> ConnectionLost:
        """Return the error of a connection that the broker ended, with what may be wrong if it never
        answered."""
        security = self._config.security
        if not self._versions:
            reason = f"{reason} ({why_it_may_have_hung_up(security, is_handshake=False)})"
        elif not self._is_known and security.login is None:
            protocol = security.option("security.protocol")
            reason = f"{reason} (perhaps it wants a login: {protocol}=SASL_SSL or SASL_PLAINTEXT)"
        return self._lost(ConnectionLost, reason)

    def _lost(self, kind: type[E], reason: str) -> E:
        self.close()
        return kind(f"broker {self._where}: {reason}")


def _told(error: OSError) -> str:
    return str(error) or type(error).__name__
