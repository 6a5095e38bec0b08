"""One request to another broker and its answer, on a connection that does nothing else."""

from __future__ import annotations

from springtide.node.net import Channel
from springtide.wire.framing import FrameReader


async def send_all(channel: Channel, data: bytes) -> None:
    """Send all of `data`. Raise OSError."""
    unsent = memoryview(data)
    while unsent:
        try:
            unsent = unsent[channel.send((unsent,)) :]
        except BlockingIOError:
            await channel.wait_writable()


async def ask(channel: Channel, frame: bytes, *, answer_bytes_max: int) -> memoryview:
    """Send a request and return the whole frame of its answer. Raise OSError, FrameError."""
    await send_all(channel, frame)
    frames = FrameReader(frame_bytes_max=answer_bytes_max)
    while (answer := frames.next_frame()) is None:
        try:
            count = channel.recv_into(frames.writable())
        except BlockingIOError:
            await channel.wait_readable()
            continue
        if not count:
            raise ConnectionResetError("it closed the connection without an answer")
        frames.received(count)
    return answer
