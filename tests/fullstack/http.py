"""HTTP over the simulated network: the real httpx client below a real application, real bytes between them.

httpcore takes a network backend, so that the broker's client keeps its pools, its timeouts and its h11. The
server is the part of uvicorn that matters here: requests one after another on a connection, `http.disconnect`
the moment the client's end closes (a controller learns of a dead broker by it), and keep-alive.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote

import h11
import httpcore
import httpx
import trio

from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimChannel, SimListener, SimNet

READ_BYTES = 16 * 1024

_log = logging.getLogger(__name__)

AsgiMessage = MutableMapping[str, Any]
AsgiApp = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]],
    Awaitable[None],
]


async def receive_some(channel: SimChannel, count: int = READ_BYTES) -> bytes:
    """b"" at the end. Raises OSError."""
    buffer = bytearray(count)
    while True:
        try:
            taken = channel.recv_into(memoryview(buffer))
        except BlockingIOError:
            await channel.wait_readable()
            continue
        return bytes(buffer[:taken])


async def send_all(channel: SimChannel, data: bytes) -> None:
    """Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[channel.send([view]) :]
        except BlockingIOError:
            await channel.wait_writable()


# The client's end


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, life: Life, channel: SimChannel) -> None:
        self._life = life
        self._channel = channel

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._life.clock.timeout_s(timeout):
            try:
                return await receive_some(self._channel, max_bytes)
            except (OSError, trio.ClosedResourceError) as error:
                raise httpcore.ReadError(str(error)) from error
        raise httpcore.ReadTimeout

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with self._life.clock.timeout_s(timeout):
            try:
                return await send_all(self._channel, buffer)
            except (OSError, trio.ClosedResourceError) as error:
                raise httpcore.WriteError(str(error)) from error
        raise httpcore.WriteTimeout

    async def aclose(self) -> None:
        self._channel.close()

    def get_extra_info(self, info: str) -> Any:
        return self._channel.is_readable if info == "is_readable" else None


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, life: Life, net: SimNet) -> None:
        self._life = life
        self._net = net

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del local_address, socket_options
        with self._life.clock.timeout_s(timeout):
            try:
                return _Stream(self._life, await self._net.connect(host, port))
            except OSError as error:
                raise httpcore.ConnectError(str(error)) from error
        raise httpcore.ConnectTimeout

    async def sleep(self, seconds: float) -> None:
        await self._life.clock.sleep_ms(seconds * 1000)


class SimTransport(httpx.AsyncHTTPTransport):
    """httpx's own, over the simulated network. Idle connections are kept for ever: httpcore would look at the
    machine's clock to know how long they have been idle."""

    def __init__(self, life: Life, net: SimNet) -> None:
        self._pool = httpcore.AsyncConnectionPool(network_backend=_Backend(life, net), keepalive_expiry=None)


# The server's end


async def serve_http(app: AsgiApp, listener: SimListener) -> None:
    """Until cancelled, or until the listener is closed."""
    listener.begin()
    async with trio.open_nursery() as nursery:
        while True:
            try:
                channel = await listener.accept()
            except trio.ClosedResourceError:
                return
            nursery.start_soon(_serve_connection, app, channel)


async def _serve_connection(app: AsgiApp, channel: SimChannel) -> None:
    connection = h11.Connection(h11.SERVER)
    try:
        while True:
            request = await _next_request(connection, channel)
            if request is None:
                break
            exchange = _Exchange(app, connection, channel, *request)
            if not await exchange.run():
                break
            connection.start_next_cycle()
    except (OSError, trio.ClosedResourceError, h11.ProtocolError) as error:
        _log.debug("connection of %s ends: %s", channel.peer, error)
    finally:
        channel.close()


async def _next_request(connection: h11.Connection, channel: SimChannel) -> tuple[h11.Request, bytes] | None:
    """With its whole body; None at the connection's end."""
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await receive_some(channel))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None
            return request, bytes(body)
        else:
            return None


class _Exchange:
    """One request and its response."""

    def __init__(
        self,
        app: AsgiApp,
        connection: h11.Connection,
        channel: SimChannel,
        request: h11.Request,
        body: bytes,
    ) -> None:
        self._app = app
        self._connection = connection
        self._channel = channel
        self._request = request
        self._messages: list[AsgiMessage] = [{"type": "http.request", "body": body, "more_body": False}]
        self._disconnected = trio.Event()
        self._is_done = False

    async def run(self) -> bool:
        """Whether the connection can carry another request."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            await self._app(self._scope(), self._receive, self._send)
            nursery.cancel_scope.cancel()
        return (
            not self._disconnected.is_set()
            and self._connection.our_state is h11.DONE
            and self._connection.their_state is h11.DONE
        )

    def _scope(self) -> AsgiMessage:
        target = self._request.target
        path, _, query = target.partition(b"?")
        host, port = self._channel.machine.address, 0
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self._request.http_version.decode(),
            "method": self._request.method.decode(),
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in self._request.headers],
            "client": (self._channel.peer, 50_000),
            "server": (host, port),
            "state": {},
        }

    async def _watch(self) -> None:
        """The client speaks again only after our answer: what can be read before is its end."""
        await self._channel.wait_readable()
        self._disconnected.set()

    async def _receive(self) -> AsgiMessage:
        if self._messages:
            await trio.lowlevel.checkpoint()
            return self._messages.pop()
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: AsgiMessage) -> None:
        if self._disconnected.is_set():
            await trio.lowlevel.checkpoint()
            return
        match message["type"]:
            case "http.response.start":
                data = self._connection.send(
                    h11.Response(status_code=message["status"], headers=list(message.get("headers", ())))
                )
            case "http.response.body":
                data = self._connection.send(h11.Data(data=message.get("body", b"")))
                if not message.get("more_body", False):
                    data = (data or b"") + (self._connection.send(h11.EndOfMessage()) or b"")
            case other:
                raise AssertionError(other)
        if data:
            try:
                await send_all(self._channel, data)
            except (OSError, trio.ClosedResourceError):
                self._disconnected.set()
