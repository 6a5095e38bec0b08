"""Requests to another process that speaks Kafka, and their answers: a WireClient over a channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from springtide.node.clock import Clock
from springtide.node.net import Channel, Net
from springtide.wire.client import WireAnswer, WireClient
from springtide.wire.compression import Buffer

T = TypeVar("T")


async def connect(net: Net, clock: Clock, host: str, port: int, *, timeout_ms: int) -> Channel:
    """Return a connection. Raise OSError, of which TimeoutError is one."""
    with clock.timeout_ms(timeout_ms):
        return await net.connect(host, port)
    raise TimeoutError("connecting took too long")


async def send_all(channel: Channel, data: bytes) -> None:
    """Send all of `data`. Raise OSError."""
    unsent = memoryview(data)
    while unsent:
        try:
            unsent = unsent[channel.send((unsent,)) :]
        except BlockingIOError:
            await channel.wait_writable()


async def receive(channel: Channel, client: WireClient[T]) -> WireAnswer[T]:
    """Return the next answer. Raise OSError, FrameError, MalformedRequest."""
    while (answer := client.next_answer()) is None:
        try:
            count = channel.recv_into(client.frames.writable())
        except BlockingIOError:
            await channel.wait_readable()
            continue
        client.received(count)
    return answer


async def ask(
    channel: Channel, client: WireClient[None], api_key: int, api_version: int, body: Sequence[Buffer]
) -> WireAnswer[None]:
    """Send a request and return its answer, on a connection on which nothing else is on its way. Raise
    OSError, FrameError, MalformedRequest."""
    await send_all(channel, b"".join(client.ask(api_key, api_version, body, None)))
    return await receive(channel, client)
