"""From a frame to its handler.

An API or version that is not advertised ends the connection, because the client would not understand any
answer. ApiVersions is the exception: the client can't know our versions yet (KIP-511).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TypeVar

from springtide.node.clock import Clock
from springtide.node.connection import Connection, Dispatch, PendingAnswer
from springtide.node.handlers import api_versions
from springtide.node.handlers.context import NodeContext, Request
from springtide.wire.apis import APIS, UnsupportedApi
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import RequestMessage
from springtide.wire.headers import decode_request_header

C = TypeVar("C", bound=NodeContext)
M = TypeVar("M", bound=RequestMessage)
Handler = Callable[[C, Request], None]


def reads(message_type: type[M], handle: Callable[[C, Request, M], None]) -> Handler[C]:
    """Return a handler that reads the request's message for one that takes it."""

    @wraps(handle)
    def handle_bytes(context: C, request: Request) -> None:
        handle(context, request, request.read(message_type))

    return handle_bytes


def make_dispatch(handlers: Mapping[int, Handler[C]], context: C, clock: Clock) -> Dispatch:
    """Return the function that connections call with each frame; it raises MalformedRequest or
    UnsupportedApi.

    handlers: one for each API that this process advertises.
    """
    requests, refusals = context.counters.requests, context.counters.refusals
    mono_ms, on_rest = clock.mono_ms, context.counters.on_rest
    view, rights_of, open_account = context.view, context.authorizer.rights_of, context.quotas.open

    def dispatch(connection: Connection, frame: memoryview, answer: PendingAnswer) -> None:
        try:
            api_key, api_version, correlation_id, client_id, body_position = decode_request_header(frame)
        except UnsupportedApi as error:
            if error.api_key in APIS:
                refusals.note(error.api_key, (ErrorCode.UNSUPPORTED_VERSION,), connection, now_ms=mono_ms())
            if not error.is_api_versions:
                raise
            answer.complete(api_versions.refuse_version(error.correlation_id))
            return
        if connection.sasl is not None:
            connection.sasl.check(api_key, mono_ms())
        requests[api_key] = requests.get(api_key, 0) + 1
        connection.client_id = client_id
        rights = rights_of(connection) if view.is_authorizer_on else None
        account = open_account(connection, rights, api_key, len(frame)) if view.quotas else None
        handlers[api_key](
            context,
            Request(
                api_key=api_key,
                api_version=api_version,
                correlation_id=correlation_id,
                frame=frame,
                body_position=body_position,
                answer=answer,
                now_ms=mono_ms(),
                rights=rights,
                account=account,
                on_rest=on_rest,
                refusals=refusals,
            ),
        )
        if account is not None:
            account.end()

    return dispatch
