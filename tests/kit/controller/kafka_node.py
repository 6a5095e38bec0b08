"""A node that speaks Kafka on loopback and answers as it is told, for those who ask it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any

import anyio
import anyio.abc
from anyio.streams.tls import TLSListener

from springtide.wire import codec
from springtide.wire.apis import ApiKey, response_header_version
from springtide.wire.framing import FrameReader, encode_response_frame
from springtide.wire.headers import RequestHeader, decode_request_header


class Instead(Enum):
    """What a node does instead of answering."""

    BE_SILENT = auto()
    HANG_UP = auto()


#: Takes the request's message, None of a Fetch. Returns the fields of the answer, or its bytes.
Behaviour = Callable[[Any], "dict[str, Any] | bytes | Instead"]


class KafkaNode:
    """answers: by API. asked: what came, in order. open: its connections now. correlation_shift: added to the
    ids of its answers."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[int, Behaviour] = {}
        self.asked: list[ApiKey] = []
        self.client_ids: set[str | None] = set()
        self.open = 0
        self._left = anyio.Event()
        self.correlation_shift = 0

    async def talk(self, stream: anyio.abc.ByteStream) -> None:
        self.open += 1
        frames = FrameReader()
        try:
            while True:
                while (frame := frames.next_frame()) is None:
                    received = await stream.receive(1_000)
                    frames.writable()[: len(received)] = received
                    frames.received(len(received))
                header = decode_request_header(frame)
                self.asked.append(ApiKey(header.api_key))
                self.client_ids.add(header.client_id)
                body = self._body(header, frame)
                if body is Instead.HANG_UP:
                    return
                if isinstance(body, bytes):
                    await stream.send(self._frame(header, body))
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
        finally:
            self.open -= 1
            self._left.set()
            self._left = anyio.Event()
            await anyio.aclose_forcefully(stream)

    async def all_left(self) -> None:
        """Wait until no connection is open."""
        with anyio.fail_after(5):
            while self.open:
                await self._left.wait()

    def _body(self, header: RequestHeader, frame: memoryview) -> bytes | Instead:
        named = (header.api_key, header.api_version)
        message = None
        if header.api_key != ApiKey.FETCH:
            message = codec.decode(codec.request_type(*named), frame, header.body_position)
        body = self.answers[header.api_key](message)
        if isinstance(body, dict):
            return codec.encode(codec.build(codec.response_type(*named), body))
        return body

    def _frame(self, header: RequestHeader, body: bytes) -> bytes:
        chunks = encode_response_frame(
            header.correlation_id + self.correlation_shift,
            [body],
            has_flexible_header=bool(response_header_version(header.api_key, header.api_version)),
        )
        return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[KafkaNode]:
    node = KafkaNode()
    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    node.port = tcp.extra(anyio.abc.SocketAttribute.local_port)
    listener: Any = tcp if tls is None else TLSListener(tcp, tls, standard_compatible=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, node.talk)
        yield node
        tasks.cancel_scope.cancel()
