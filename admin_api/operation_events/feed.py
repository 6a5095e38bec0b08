"""The content of an operation's stream, and the limit on the number of streams.

A stream sends states, not history: each event is the operation as `GET /operations/{id}` shows it, with its
revision as the event's id. So the controller keeps nothing for clients that reconnect, and a client that
reads slowly misses intermediate states but never the last one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial

from fastapi.sse import format_sse_event

from admin_api.operations.views import operation_view
from admin_api.problem import ProblemError
from admin_api.settings import ApiSettings
from controller.database.operation_rows import get_operation
from controller.database.rows import OperationRow
from controller.database.sql import Database, DatabaseRejected, DatabaseUnavailable
from controller.operations.model import FINISHED
from controller.operations.shell.runner import OperationsRunner
from controller.shell.clock import Clock
from controller.shell.engine_port import EnginePort

EVENT = "operation"
HEARTBEAT = format_sse_event(comment="still here")
UNAVAILABLE = format_sse_event(comment="the audit database is unavailable")
#: A look may take at most this fraction of the time: a look at an operation with many moves is slow.
_SHARE_OF_TIME = 20


@dataclass(frozen=True, slots=True)
class Look:
    """One look at an operation. revision: of its row. body: the operation as JSON, with its current
    progress."""

    revision: int
    is_finished: bool
    body: str


class OperationFeed:
    """The looks at operations for all streams of one controller. Streams of one operation share a look."""

    def __init__(
        self,
        *,
        engine: EnginePort,
        store: Database,
        operations: OperationsRunner,
        clock: Clock,
        settings: ApiSettings,
    ) -> None:
        self._engine = engine
        self._store = store
        self._operations = operations
        self._clock = clock
        self._settings = settings
        self._open = 0
        #: By operation, with the monotonic time until which the look is valid; only for open streams.
        self._looks: dict[str, tuple[int, Look]] = {}

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
                headers={"Retry-After": str(self._settings.retry_after_s)},
            )
        self._open += 1

    def give_back(self) -> None:
        assert self._open > 0
        self._open -= 1
        if self._open == 0:
            self._looks.clear()

    async def look(self, operation_id: str) -> Look | None:
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
        live = self._operations.live([row])
        moving = self._operations.moving(row.id)
        found = Look(
            revision=row.revision,
            is_finished=row.state in FINISHED,
            body=operation_view(row, live.get(row.cluster), moving).model_dump_json(),
        )
        now_ms = self._clock.now_mono_ms()
        pause_ms = max(self._settings.event_poll_ms, _SHARE_OF_TIME * (now_ms - began_ms))
        self._looks = {key: value for key, value in self._looks.items() if value[0] > now_ms}
        self._looks[operation_id] = (now_ms + pause_ms, found)
        return found

    async def events(
        self, operation_id: str, first: Look, *, last_seen: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the operation's events. first: the current look. last_seen: the revision that the client
        already has.

        The stream ends with the operation, when this controller stops being the active one (the next one has
        more recent data), and after `event_stream_ms_max`. The client then opens it again and sends the last
        revision that it saw.
        """
        was_active = self._engine.role == "active"
        yield format_sse_event(retry=self._settings.retry_after_s * 1000)
        look: Look | None = first
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
        return await self._store.read(partial(get_operation, operation_id=operation_id))
