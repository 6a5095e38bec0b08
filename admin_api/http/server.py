"""Limits that uvicorn does not have: how long the head of a request may take, how large it may be before it
is complete, and the answer to a client that exceeds them.

uvicorn only limits the idle time between requests. A client that sends a byte of a head now and then holds
its connection indefinitely (slowloris), and a client that never ends its head fills the memory. The time
limit of a head runs from its first byte to its last, so sending more bytes does not extend it. A connection
on which nothing was ever sent counts as idle; a standby that watches this controller over one connects again.

This is a subclass, not a proxy or another server: it observes three of uvicorn's callbacks and does not
change what uvicorn does in them. The reader of a body limits the body (`bodies.read_json`).
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from admin_api.http.certificates import CERTIFICATE_SCOPE_KEY, certificate_names
from admin_api.http.gate import OVERLOADED_SCOPE_KEY, PATH_CHARS_SHOWN_MAX
from admin_api.http.problems import ProblemError, problem_response
from admin_api.settings import ApiSettings
from controller.face.surroundings import Ids


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. uvicorn creates it, so its limits are attributes of the class: see `bounded_by`."""

    head_timeout_s: ClassVar[float]
    head_bytes_max: ClassVar[int]
    connections_max: ClassVar[int]
    _ids: ClassVar[Ids] = Ids(os.urandom)

    @classmethod
    def bounded_by(cls, settings: ApiSettings, *, connections_max: int) -> type[BoundedHttpProtocol]:
        """Return the class to give to `uvicorn.Config(http=...)`."""
        bounds = {
            "head_timeout_s": settings.head_timeout_ms / 1000,
            # Bytes on the wire: the target, the fields, and ": " and a line end for each field.
            "head_bytes_max": settings.target_bytes_max
            + settings.headers_bytes_max
            + 4 * settings.headers_max,
            "connections_max": connections_max,
        }
        return type(cls.__name__, (cls,), bounds)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_message = False
        self._in_head = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._certificate_names: tuple[str, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Empty without TLS and without a certificate; the handshake has refused what is not of --client-ca.
        self._certificate_names = certificate_names(transport.get_extra_info("peercert") or {})
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head or not self._in_message:
            # The timer starts before the parser sees a head begin: the parser skips any number of blank
            # lines.
            self._start_head_timer()
        began_earlier = self._in_head
        super().data_received(data)
        if self.transport.is_closing() or not self._in_head:
            return
        self._start_head_timer()
        # Bytes of the same chunk before the head began do not belong to the head, so that chunk is not
        # counted.
        self._head_bytes += len(data) if began_earlier else 0
        if self._head_bytes > self.head_bytes_max:
            self._refuse(ProblemError("headers_too_large", f"a head may have {self.head_bytes_max} bytes"))

    def on_message_begin(self) -> None:
        self._in_message = self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()
        if self._certificate_names:
            self.scope[CERTIFICATE_SCOPE_KEY] = self._certificate_names  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._end_head_timer()
        if max(len(self.connections), len(self.tasks)) >= self.connections_max:
            # The application answers it, like every other refusal.
            self.scope[OVERLOADED_SCOPE_KEY] = True  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_message = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(ProblemError("bad_request", msg))

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_timeout_s, self._on_head_timeout)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self._is_answering:
            # The head of a pipelined request can't be refused before the answer that it waits behind.
            self._start_head_timer()
        else:
            seconds = f"{self.head_timeout_s:g}"
            self._refuse(ProblemError("request_timeout", f"the request's head took longer than {seconds} s"))

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_reading_body(self) -> bool:
        """Return whether the last bytes belong to the body of the request to be answered next, and its answer
        has not begun."""
        cycle = self.cycle
        is_body = self._in_message and not self._in_head and not self.pipeline
        return is_body and cycle is not None and not cycle.response_started

    def _refuse(self, problem: ProblemError) -> None:
        """Answer with the problem, unless another answer has begun, and close the connection."""
        if self.transport.is_closing():
            return
        is_reading_body = self._is_reading_body
        if is_reading_body:
            # This refusal is the answer to that request; the application's answer is dropped.
            self.cycle.disconnected = True
        if is_reading_body or not self._is_answering:
            request_id = self._ids.new_id()
            response = problem_response(problem, path=self._path(), request_id=request_id)
            fields = [*response.raw_headers, (b"x-request-id", request_id.encode("ascii"))]
            lines = [name + b": " + value + b"\r\n" for name, value in [*fields, (b"connection", b"close")]]
            self.transport.write(b"".join([STATUS_LINE[problem.status], *lines, b"\r\n", response.body]))
        self.transport.close()

    def _path(self) -> str:
        try:
            path: bytes = httptools.parse_url(getattr(self, "url", b"")).path or b"/"
        except httptools.HttpParserError:
            path = b"/"
        return path.decode("ascii", "replace")[:PATH_CHARS_SHOWN_MAX]
