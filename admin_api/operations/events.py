"""/operations/{operation_id}/events: an operation as a stream of server-sent events, and the limit on the
number of streams.

A stream sends states, not history: each event is the operation as `GET /operations/{id}` shows it, with
its revision as the event's id. So the controller keeps nothing for clients that reconnect, and a client
that reads slowly misses intermediate states but never the last one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from admin_api.http.models import OperationPath
from admin_api.http.problems import ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.operations.service import current_view
from admin_api.settings import RETRY_AFTER_S
from controller.face.database import DatabaseRejected, DatabaseUnavailable, OperationRow, get_operation
from controller.face.operations import FINISHED
from controller.face.surroundings import ControllerClock

#: A proxy that buffers the answer makes a stream useless.
_HEADERS: Final = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
EVENT = "operation"
HEARTBEAT = format_sse_event(comment="still here")
UNAVAILABLE = format_sse_event(comment="the audit database is unavailable")
#: A look may take at most this fraction of the time: a look at an operation with many moves is slow.
_SHARE_OF_TIME = 20
#: Milliseconds that a client may take to read the last event.
LAST_READ_MS_MAX = 5_000


class EventStream(EventSourceResponse):
    """A stream of events. events: as `format_sse_event` writes them. ms_max: the time after which the stream
    is cut off; a stream that is read has ended before. on_end: called exactly once when the stream ends."""

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        clock: ControllerClock,
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


@dataclass(frozen=True, slots=True)
class OperationSnapshot:
    """One look at an operation. revision: of its row. body: the operation as JSON, with its current
    progress."""

    revision: int
    is_finished: bool
    body: str


class OperationFeed:
    """The looks at operations for all streams of one controller. Streams of one operation share a look."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._engine = services.engine
        self._store = services.database
        self._operations = services.operations
        self._clock = services.clock
        self._settings = services.settings
        self._open = 0
        #: By operation, with the monotonic time until which the look is valid; only for open streams.
        self._looks: dict[str, tuple[int, OperationSnapshot]] = {}

    @property
    def open_streams(self) -> int:
        return self._open

    def take(self) -> None:
        """Count a stream that begins. Raise overloaded if there are too many."""
        if self._open >= self._settings.event_streams_max:
            raise ProblemError(
                "overloaded",
                f"this controller has {self._open} event streams open, as many as it may",
                hint="ask GET /operations/{operation_id} now and then instead",
            )
        self._open += 1

    def give_back(self) -> None:
        assert self._open > 0
        self._open -= 1
        if self._open == 0:
            self._looks.clear()

    async def look(self, operation_id: str) -> OperationSnapshot | None:
        """Return a look at the operation, or None if it does not exist. Raises DatabaseUnavailable,
        DatabaseRejected."""
        now_ms = self._clock.now_mono_ms()
        known = self._looks.get(operation_id)
        if known is not None and now_ms < known[0]:
            return known[1]
        row = await self._find(operation_id)
        if row is None:
            return None
        began_ms = self._clock.now_mono_ms()
        found = OperationSnapshot(
            revision=row.revision,
            is_finished=row.state in FINISHED,
            body=current_view(self._services, row).model_dump_json(),
        )
        now_ms = self._clock.now_mono_ms()
        pause_ms = max(self._settings.event_poll_ms, _SHARE_OF_TIME * (now_ms - began_ms))
        self._looks = {key: value for key, value in self._looks.items() if value[0] > now_ms}
        self._looks[operation_id] = (now_ms + pause_ms, found)
        return found

    async def events(
        self, operation_id: str, first: OperationSnapshot, *, last_seen: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the operation's events. first: the current look. last_seen: the revision that the client
        already has.

        The stream ends with the operation, when this controller stops being the active one (the next one has
        more recent data), and after `event_stream_ms_max`. The client then opens it again and sends the last
        revision that it saw.
        """
        was_active = self._engine.role == "active"
        yield format_sse_event(retry=RETRY_AFTER_S * 1000)
        look: OperationSnapshot | None = first
        shown = first.body if last_seen == first.revision else ""
        began_ms = spoke_ms = self._clock.now_mono_ms()
        while look is not None:
            now_ms = self._clock.now_mono_ms()
            if look.body != shown:
                shown, spoke_ms = look.body, now_ms
                yield format_sse_event(event=EVENT, id=str(look.revision), data_str=look.body)
            elif now_ms - spoke_ms >= self._settings.event_heartbeat_ms:
                spoke_ms = now_ms
                yield HEARTBEAT
            is_over = now_ms - began_ms >= self._settings.event_stream_ms_max
            if is_over or look.is_finished or (was_active and self._engine.role != "active"):
                return
            await self._clock.sleep_ms(self._settings.event_poll_ms)
            try:
                look = await self.look(operation_id)
            except (DatabaseUnavailable, DatabaseRejected):
                yield UNAVAILABLE

    async def _find(self, operation_id: str) -> OperationRow | None:
        """Return the operation's row: from memory while this controller carries the operation out, otherwise
        from SQL."""
        if self._engine.role == "active":
            for row in self._operations.running():
                if row.id == operation_id:
                    return row
        return await self._store.read(get_operation, operation_id=operation_id)


class EventRoute(StrictRoute):
    produces = (EventStream.media_type,)


router = APIRouter(route_class=EventRoute, tags=["Operations"])


async def feed_of(request: Request) -> OperationFeed:
    feed: OperationFeed = request.app.state.feed
    return feed


Feed = Annotated[OperationFeed, Depends(feed_of)]
LastEventId = Annotated[
    str | None,
    Header(
        pattern=r"^[0-9]{1,18}$",
        description="`id` of the last event that was seen; browsers send it by themselves",
        examples=["7"],
    ),
]

_STREAM = {
    "description": (
        "Events named `operation`, each with the operation as `GET /operations/{operation_id}` shows it, and "
        "comments in between. It ends with the operation, and now and then before: open it again."
    ),
    "content": {
        EventStream.media_type: {
            "schema": {"type": "string"},
            "example": (
                'retry: 1000\n\nevent: operation\ndata: {"id":"op_Zk1lV0pCTEq4nY6mXw2v3A",'
                '"state":"running"}\nid: 7\n\n: still here\n\n'
            ),
        }
    },
}


@router.get(
    "/operations/{operation_id}/events",
    operation_id="watchOperation",
    summary="Follow an operation as a stream of events",
    response_class=Response,
    response_model=None,
    responses={
        200: _STREAM,
        204: {"description": "It has ended, and the last event that was seen says how: do not come back"},
        **problems("operation_not_found", "audit_unavailable", "overloaded"),
    },
)
async def watch_it(
    services: Serving, feed: Feed, operation_id: OperationPath, last_event_id: LastEventId = None
) -> Response:
    """Stream an operation as server-sent events, for `EventSource` and `curl -N`: its state now, and again
    whenever something about it has changed. Streams are few: a script that looks once a minute should GET the
    operation instead."""
    first = await feed.look(operation_id)
    if first is None:
        raise ProblemError("operation_not_found", f"there is no operation {operation_id!r}")
    last_seen = None if last_event_id is None else int(last_event_id)
    if first.is_finished and last_seen == first.revision:
        return Response(status_code=204)
    feed.take()
    return EventStream(
        feed.events(operation_id, first, last_seen=last_seen),
        clock=services.clock,
        ms_max=services.settings.event_stream_ms_max + LAST_READ_MS_MAX,
        on_end=feed.give_back,
    )
