"""The checks in front of every route: media types, unknown parameters, body size, JSON that has one meaning.

FastAPI checks only what it was told to expect, so a mistyped parameter would be ignored silently. Here
everything that the route does not know is an error, before the route runs. A body is read once, up to its
limit, and parsed by a strict reader.
"""

from __future__ import annotations

import email.message
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final, get_origin

from fastapi import Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from admin_api.problem import FieldProblem, ProblemError
from admin_api.settings import ApiSettings
from admin_api.strict_json import Unreadable, parse_json

#: Version 1 of the interface, for clients that want to name it. `application/json` means the newest version.
VERSIONED_MEDIA_TYPE: Final = "application/vnd.springtide.v1+json"
JSON_MEDIA_TYPES: Final = ("application/json", VERSIONED_MEDIA_TYPE)

#: ASGI scope key: the body's bytes, for code that must recognise a repeated request.
BODY_SCOPE_KEY: Final = "springtide.body"


class _Word(Convertor[str]):
    """`{operation_id:word}`: a name in a path, up to a colon. The verb after the colon
    (`/operations/op_1:cancel`) is not part of the name. With the framework's own rule, a GET of that address
    would look for an operation called `op_1:cancel` instead of naming the allowed method."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("word", _Word())


class JsonRequest(Request):
    """A request whose body has been read and parsed."""

    parsed: Any = None

    async def json(self) -> Any:
        return self.parsed


class StrictRoute(APIRoute):
    """The route class of every router of this API.

    When created, a route knows only its path and methods, by which it is found. FastAPI analyses its
    parameters, bodies and answers when the route is first called or inspected. This takes some milliseconds
    for each route and a second for all; a controller that takes over needs only a few of them. A route that
    can't be analysed is found when the OpenAPI document is built, as a test does.
    """

    #: The media types of the route's answers, for content negotiation.
    produces: tuple[str, ...] = JSON_MEDIA_TYPES

    #: The pending arguments of `APIRoute.__init__`; None once it has been called.
    _pending: dict[str, Any] | None = None

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        methods = options.get("methods") or ("GET",)
        shown = options.get("include_in_schema", True)
        Route.__init__(
            self, path, endpoint, methods=methods, name=options.get("name"), include_in_schema=shown
        )
        self.methods = {method.upper() for method in methods}  # as in FastAPI: no HEAD beside GET
        self.app = self._work_out_and_serve
        self._pending = {"path": path, "endpoint": endpoint, **options}

    def __getattr__(self, name: str) -> Any:
        """Complete the route when an attribute is read that does not exist yet."""
        if self._pending is None:
            raise AttributeError(f"{type(self).__name__} {self.path} has no {name}", name=name, obj=self)
        self._work_out()
        return getattr(self, name)

    def _work_out(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            super().__init__(**pending)  # sets `app` as well
        except BaseException:
            self._pending = pending
            raise

    async def _work_out_and_serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._work_out()
        await self.app(scope, receive, send)

    def bytes_max(self, settings: ApiSettings) -> int:
        return settings.body_bytes_max

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(
            field.alias
            for field in get_flat_params(self.dependant)
            if isinstance(field.field_info, params.Query)
        )
        repeatable = frozenset(
            field.alias
            for field in get_flat_params(self.dependant)
            if isinstance(field.field_info, params.Query) and get_origin(field.field_info.annotation) is list
        )

        is_conditional = any(
            field.alias.lower() == "if-match"
            for field in get_flat_params(self.dependant)
            if isinstance(field.field_info, params.Header)
        )

        async def strict(request: Request) -> Response:
            settings: ApiSettings = request.app.state.settings
            check_accept(request.headers.get("accept"), self.produces)
            check_query(request.query_params.multi_items(), known, repeatable)
            if not is_conditional and "if-match" in request.headers:
                # To ignore a condition would be worse than to refuse it.
                field = FieldProblem(header="If-Match", message="nothing here can be compared with it")
                raise ProblemError("invalid_request", f"If-Match: {field.message}", errors=(field,))
            if self.body_field is None:
                return await handle(request)
            check_content_type(request.headers.get("content-type"))
            data = await _read_in_time(request, settings, self.bytes_max(settings))
            gated = JsonRequest(request.scope, request.receive)
            gated._body = data
            try:
                gated.parsed = parse_json(data, depth_max=settings.json_depth_max)
            except Unreadable as error:
                raise ProblemError("unreadable_body", str(error)) from None
            request.scope[BODY_SCOPE_KEY] = data
            return await handle(gated)

        return strict


class TextRoute(StrictRoute):
    """A route that answers with another media type than JSON and declares it."""

    produces = ("*/*",)


async def _read_in_time(request: Request, settings: ApiSettings, bytes_max: int) -> bytes:
    with request.app.state.services.clock.timeout_ms(settings.body_timeout_ms):
        return await read_body(request, bytes_max=bytes_max)
    raise ProblemError(
        "request_timeout",
        f"the request's body took longer than {settings.body_timeout_ms / 1000:g} s",
        headers={"Connection": "close"},
    )


async def read_body(request: Request, *, bytes_max: int) -> bytes:
    """Return the body. At most the limit and one chunk of it are in memory."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > bytes_max:
        raise _too_large(bytes_max)
    chunks: list[bytes] = []
    size = 0
    async with aclosing(request.stream()) as stream:
        async for chunk in stream:
            size += len(chunk)
            if size > bytes_max:
                raise _too_large(bytes_max)
            chunks.append(chunk)
    return b"".join(chunks)


def _too_large(bytes_max: int) -> ProblemError:
    # The rest of the body is not read, so the connection can't be used again.
    return ProblemError(
        "body_too_large",
        f"a body may have {bytes_max} bytes",
        facts={"body_bytes_max": bytes_max},
        headers={"Connection": "close"},
    )


def check_content_type(value: str | None) -> None:
    message = email.message.Message()
    message["content-type"] = value or ""
    charset = message.get_content_charset("utf-8")
    if value and message.get_content_type() in JSON_MEDIA_TYPES and charset in ("utf-8", "utf8"):
        return
    shown = "none was given" if not value else f"not {value[:100]}"
    raise ProblemError(
        "unsupported_media_type",
        f"the body must be {' or '.join(JSON_MEDIA_TYPES)} in UTF-8; {shown}",
        headers={"Accept": ", ".join(JSON_MEDIA_TYPES)},
    )


def check_accept(value: str | None, produces: tuple[str, ...]) -> None:
    """Raise not_acceptable unless a type that the route produces is accepted (RFC 9110 12.5.1, the relevant
    part): the most specific range that matches a type decides."""
    if value is None or not value.strip() or produces == ("*/*",):
        return
    ranges: dict[str, float] = {}
    for part in value.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        ranges[name] = quality
    for media_type in produces:
        wildcard = media_type.partition("/")[0] + "/*"
        for candidate in (media_type, wildcard, "*/*"):
            if candidate in ranges:
                if ranges[candidate] > 0:
                    return
                break
    raise ProblemError("not_acceptable", f"this address answers with {' or '.join(produces)}")


def check_query(
    items: list[tuple[str, str]], known: frozenset[str], repeatable: frozenset[str] = frozenset()
) -> None:
    """Refuse a parameter that is unknown here or repeated: it is the client's mistake, and the client should
    learn of it."""
    seen: set[str] = set()
    errors: list[FieldProblem] = []
    for name, _ in items:
        shown = name[:100]
        if name not in known:
            message = f"unknown parameter; known: {', '.join(sorted(known)) or 'none'}"
            errors.append(FieldProblem(parameter=shown, message=message))
        elif name in seen and name not in repeatable:
            errors.append(FieldProblem(parameter=shown, message="given more than once"))
        seen.add(name)
        if len(errors) >= 10:
            break
    if errors:
        raise ProblemError(
            "invalid_request", f"{errors[0].parameter}: {errors[0].message}", errors=tuple(errors)
        )
