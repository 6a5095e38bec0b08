"""A controller's connection to a node that speaks Kafka: a WireClient over a stream, one question at once."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread

from controller.shell.clock import ControllerClock
from springtide.wire.client import WireAnswer, WireClient, request_body
from springtide.wire.framing import FrameError
from springtide.wire.primitives import MalformedRequest

CLIENT_ID: Final = "springtide-controller"
"""Its beginning tells coordinators that they are asked one by one (springtide.node.handlers.group_lists)."""
CONNECT_MS_MAX: Final = 2_000
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
DECODED_AT_ONCE_BYTES_MAX: Final = 64 * 1024
"""A larger answer is decoded in a thread, beside everything else that the controller does."""

_FAILURES: Final = (
    OSError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    FrameError,
    MalformedRequest,
    UnicodeError,  # of a host that can't be looked up
    OverflowError,  # of a port that no host has
)


class KafkaPeer(NamedTuple):
    """Where a broker or a coordinator listens."""

    node_id: int
    host: str
    port: int

    @property
    def endpoint(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NodeLost(Exception):
    """The node did not answer, or its answer can't be understood; the message names it and says why.
    may_have_heard: it may have got the question."""

    def __init__(self, node: KafkaPeer, reason: str, *, may_have_heard: bool = True) -> None:
        super().__init__(f"{node.endpoint}: {reason}")
        self.reason = reason
        self.may_have_heard = may_have_heard


class KafkaConnection:
    """Give it up after NodeLost: an answer may be on its way."""

    def __init__(self, node: KafkaPeer, stream: anyio.abc.ByteStream) -> None:
        self._node = node
        self._stream = stream
        self._client: WireClient[None] = WireClient(CLIENT_ID, answer_bytes_max=ANSWER_BYTES_MAX)

    async def ask(self, api_key: int, api_version: int, fields: Mapping[str, object]) -> Any:
        """Return the answer in the API's definition. Raise NodeLost."""
        answer = await self.ask_raw(api_key, api_version, request_body(api_key, api_version, fields))
        try:
            if len(answer.frame) <= DECODED_AT_ONCE_BYTES_MAX:
                return answer.message()
            return await anyio.to_thread.run_sync(answer.message)
        except MalformedRequest as error:
            raise NodeLost(self._node, _why(error)) from error

    async def ask_raw(self, api_key: int, api_version: int, body: bytes) -> WireAnswer[None]:
        """Return the answer undecoded. Raise NodeLost."""
        try:
            await self._stream.send(b"".join(self._client.ask(api_key, api_version, [body], None)))
            while (answer := self._client.next_answer()) is None:
                room = self._client.frames.writable()
                received = await self._stream.receive(len(room))
                room[: len(received)] = received
                self._client.received(len(received))
            return answer
        except _FAILURES as error:
            raise NodeLost(self._node, _why(error)) from error


@asynccontextmanager
async def connected(
    node: KafkaPeer, clock: ControllerClock, tls: ssl.SSLContext | None
) -> AsyncIterator[KafkaConnection]:
    """Connect, and close the connection at the end. tls: None speaks in the clear. Raise NodeLost."""
    stream: anyio.abc.ByteStream | None = None
    try:
        with clock.timeout_ms(CONNECT_MS_MAX):
            if tls is None:
                stream = await anyio.connect_tcp(node.host, node.port)
            else:
                stream = await anyio.connect_tcp(
                    node.host, node.port, ssl_context=tls, tls_standard_compatible=False
                )
    except _FAILURES as error:
        raise NodeLost(node, _why(error), may_have_heard=False) from error
    if stream is None:
        raise NodeLost(node, "connecting took too long", may_have_heard=False)
    try:
        yield KafkaConnection(node, stream)
    finally:
        with anyio.CancelScope(shield=True):  # closing does not wait
            await stream.aclose()


def _why(error: BaseException) -> str:
    match error:
        case anyio.EndOfStream():
            return "it closed the connection"
        case ssl.SSLCertVerificationError():
            return f"its certificate is refused: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS: {error.reason or error}"
        case OSError(__cause__=OSError() as cause) | anyio.BrokenResourceError(__cause__=OSError() as cause):
            return _why(cause)  # anyio's words say less
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
