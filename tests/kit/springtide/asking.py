"""A request to one handler, without a connection, and its answer; a way to a controller for the handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from springtide.contract.administration import AdminOutcome, AdminResponse
from springtide.contract.errors import ControllerError
from springtide.node.authorization import ClientRights
from springtide.node.handlers.context import Request
from springtide.security.acls.model import ANONYMOUS
from springtide.wire import codec
from springtide.wire.apis import response_header_version
from springtide.wire.compiler import fields_of as fields_of_version
from springtide.wire.fields import ApiMessage, MessagePart
from tests.kit.springtide.wire_messages import fitting


class Forwarded:
    """The way to a controller that answers at once. calls, who: what it was asked, and for which client."""

    def __init__(self, *outcomes: AdminOutcome, error: ControllerError = ControllerError.NONE) -> None:
        self.answer = AdminResponse(error=error, outcomes=outcomes)
        self.calls: list[Any] = []
        self.who: list[dict[str, str | None]] = []
        self.timeout_ms = 0

    def start(
        self, call: Any, *, timeout_ms: int, done: Callable[[AdminResponse], None], **who: str | None
    ) -> None:
        self.calls.append(call)
        self.who.append(who)
        self.timeout_ms = timeout_ms
        done(self.answer)


def answer_of(
    handle: Callable[..., None],
    api_key: int,
    api_version: int,
    fields: dict[str, Any],
    **asked: Any,
) -> Any:
    """Return the message that the handler answers with at once. asked: see `answers_of`."""
    (answer,) = answers_of(handle, api_key, api_version, fields, **asked)
    return answer


def answers_of(
    handle: Callable[..., None],
    api_key: int,
    api_version: int,
    fields: dict[str, Any],
    *,
    context: Any,
    now_ms: int = 0,
    client_id: str | None = "client",
    listener: str = "",
    rights: ClientRights | None = None,
    account: Any = None,
    software: str = "unknown",
    may_be_members: bool = False,
    connection_number: int = 1,
) -> list[Any]:
    """Return a list that gets the message that the handler answers with, now or later, or None if it closes
    the connection. handle: one of a table, or one that takes the message. listener: by which the client came.
    rights: what it may do; None: everything. account: what the client uses is charged to it."""
    answers: list[Any] = []

    def complete(chunks: Sequence[Any]) -> None:
        frame = b"".join(bytes(chunk) for chunk in chunks)
        header_bytes = 8 + response_header_version(api_key, api_version)
        answers.append(codec.decode(codec.response_type(api_key, api_version), frame, header_bytes))

    connection = SimpleNamespace(
        software=software,
        may_be_members=may_be_members,
        client_id=client_id,
        peer="10.0.0.1",
        number=connection_number,
        listener=listener,
        sasl=None,
        principal=ANONYMOUS if rights is None else rights.principal,
        fetch_session=None,
        closed=False,
        close=lambda: answers.append(None),
    )
    asked = codec.request_type(api_key, api_version)
    body = codec.encode(codec.build(asked, fitting(fields, asked, api_version)))
    request = Request(
        api_key=api_key,
        api_version=api_version,
        correlation_id=9,
        frame=memoryview(body),
        body_position=0,
        answer=cast(Any, SimpleNamespace(complete=complete, connection=connection)),
        now_ms=now_ms,
        rights=rights,
        account=account,
    )
    if len(inspect.signature(handle, follow_wrapped=False).parameters) == 3:
        handle(context, request, request.read(codec.request_class(api_key)))
    else:
        handle(context, request)
    return answers


def fields_of(message: Any) -> dict[str, Any]:
    """Return the fields that the message's version has, by name."""
    message_type: type[ApiMessage] = type(message)
    fields = fields_of_version(message_type, codec.version_of(message_type))
    return {field.name: getattr(message, field.name) for field in fields}


def error_codes(message: Any) -> set[int]:
    """Return all error codes in the message, those of its parts and NONE included."""
    return _error_codes(message, codec.version_of(type(message)))


def _error_codes(message: MessagePart, version: int) -> set[int]:
    found: set[int] = set()
    for field in fields_of_version(type(message), version):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            found.add(int(value))
        elif field.nested is not None and field.is_array:
            found.update(*(_error_codes(one, version) for one in value or ()))
    return found
