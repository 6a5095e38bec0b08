"""A response of server-sent events that is bounded in time, also for a client that does not read.

FastAPI writes the events and ends the response when its client disconnects. sse-starlette does both, too, but
it replaces a method of uvicorn's server on import and polls twice a second for the server's shutdown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from fastapi.sse import EventSourceResponse
from starlette.types import Receive, Scope, Send

from controller.shell.clock import Clock

#: A proxy that buffers the answer makes a stream useless.
_HEADERS: Final = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}


class EventStream(EventSourceResponse):
    """A stream of events. events: as `format_sse_event` writes them. ms_max: the time after which the stream
    is cut off; a stream that is read has ended before. on_end: called exactly once when the stream ends."""

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        clock: Clock,
        ms_max: int,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(events, headers=_HEADERS)
        self._events = events
        self._clock = clock
        self._ms_max = ms_max
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._events):
                with self._clock.timeout_ms(self._ms_max):
                    await super().__call__(scope, receive, send)
        finally:
            self._on_end()
