"""Server-sent events (WHATWG HTML 9.2) over ASGI: how one is written, and a response that is many of them.

A stream is bounded in time: its client opens it again and says what it saw last. It ends at once when the
client goes away, and a client that does not read holds no more memory than one event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final

import anyio
from fastapi import Response
from starlette.types import Receive, Scope, Send

from controller.shell.clock import Clock

MEDIA_TYPE: Final = "text/event-stream"

HEARTBEAT: Final = b": still here\n\n"


def encode_event(*, name: str, event_id: str, data: bytes) -> bytes:
    """data: UTF-8. Each of its lines becomes a line of the event."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    fields = b"".join(b"data: " + line + b"\n" for line in lines)
    return f"event: {name}\nid: {event_id}\n".encode() + fields + b"\n"


def encode_retry(pause_ms: int) -> bytes:
    """After how long a client that has lost the stream opens it again."""
    return f"retry: {pause_ms}\n\n".encode("ascii")


class EventStream(Response):
    """chunks: what is sent, each as soon as it comes. ms_max: then the stream is ended. on_end: called once,
    however it ends."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        clock: Clock,
        ms_max: int,
        on_end: Callable[[], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # no-transform and the last one: a proxy that collects what it forwards makes a stream useless.
        fields = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__(None, headers=fields)
        del self.headers["content-length"]
        self._chunks = chunks
        self._clock = clock
        self._ms_max = ms_max
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_sending = False
        try:
            with self._clock.timeout_ms(self._ms_max):
                async with anyio.create_task_group() as tasks, aclosing(self._chunks) as chunks:
                    tasks.start_soon(_cancel_on_disconnect, receive, tasks.cancel_scope)
                    await send(
                        {"type": "http.response.start", "status": 200, "headers": list(self.raw_headers)}
                    )
                    async for chunk in chunks:
                        is_sending = True
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                        is_sending = False
                    tasks.cancel_scope.cancel()
        finally:
            self._on_end()
        if not is_sending:  # or it would wait for the same client, and without an end
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
