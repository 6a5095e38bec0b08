"""One request to another process that speaks Kafka, and its answer."""

from __future__ import annotations

from springtide.node.clock import Clock
from springtide.node.net import Channel, Net
from springtide.wire.framing import FrameReader


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


async def receive(channel: Channel, frames: FrameReader) -> memoryview:
    """Return the next whole frame. Raise OSError, FrameError."""
    while (frame := frames.next_frame()) is None:
        try:
            count = channel.recv_into(frames.writable())
        except BlockingIOError:
            await channel.wait_readable()
            continue
        if not count:
            raise ConnectionResetError("it closed the connection without an answer")
        frames.received(count)
    return frame


async def ask(channel: Channel, frame: bytes, *, answer_bytes_max: int) -> memoryview:
    """Send a request and return the whole frame of its answer, on a connection on which nothing else is on
    its way. Raise OSError, FrameError."""
    await send_all(channel, frame)
    return await receive(channel, FrameReader(frame_bytes_max=answer_bytes_max))
