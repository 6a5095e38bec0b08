"""/operations/{operation_id}/events"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from admin_api.event_stream import EventStream
from admin_api.operations.routes import OperationPath
from admin_api.problem import ProblemError, problems
from admin_api.services import Serving
from admin_api.strict_route import StrictRoute


class EventRoute(StrictRoute):
    produces = (EventStream.media_type,)


#: Milliseconds that a client may take to read the last event.
LAST_READ_MS_MAX = 5_000

router = APIRouter(route_class=EventRoute, tags=["Operations"])

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
    services: Serving, operation_id: OperationPath, last_event_id: LastEventId = None
) -> Response:
    """Stream an operation as server-sent events, for `EventSource` and `curl -N`. The first event is the
    operation's current state; another follows whenever something about it has changed. The number of streams
    is small and bounded: a script that looks once a minute should GET the operation instead."""
    feed = services.feed
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
