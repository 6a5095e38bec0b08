"""The checks in front of every route: the caller's rights, media types, unknown parameters, body size, JSON
that has one meaning.

FastAPI checks only what it was told to expect, so a mistyped parameter would be ignored silently. Here
everything that the route does not know is an error, before the route runs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_origin

from fastapi import Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor

from admin_api.http.bodies import JSON_MEDIA_TYPES, read_json
from admin_api.http.guard import check_request
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.settings import ApiSettings


class _Word(Convertor[str]):
    """`{operation_id:word}`: a name in a path, up to a colon. The verb after the colon
    (`/operations/op_1:cancel`) is not part of the name. With the framework's own rule, a GET of that address
    would look for an operation called `op_1:cancel` instead of naming the allowed method."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Whole(Convertor[str]):
    """`{group_id:whole}`: the rest of a path, or all before the route's last `:verb`, for names of any
    characters. A slash that was percent-encoded is a slash by now, and belongs to the name."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("word", _Word())
register_url_convertor("whole", _Whole())


class StrictRoute(APIRoute):
    """The route class of every router of this API, as FastAPI offers it: `get_route_handler` wraps FastAPI's
    own."""

    #: The media types of the route's answers, for content negotiation.
    produces: tuple[str, ...] = JSON_MEDIA_TYPES

    def bytes_max(self, settings: ApiSettings) -> int:
        return settings.body_bytes_max

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        # FastAPI lists a route's parameters nowhere else; it makes the OpenAPI document from this list.
        parameters = get_flat_params(self.dependant)
        queries = [field for field in parameters if isinstance(field.field_info, params.Query)]
        known = frozenset(field.alias for field in queries)
        repeatable = frozenset(
            field.alias for field in queries if get_origin(field.field_info.annotation) is list
        )
        is_conditional = any(
            isinstance(field.field_info, params.Header) and field.alias.lower() == "if-match"
            for field in parameters
        )

        operation_id = self.operation_id or ""

        async def strict(request: Request) -> Response:
            settings: ApiSettings = request.app.state.settings
            check_request(request, operation_id)
            check_accept(request.headers.get("accept"), self.produces)
            check_query(request.query_params.multi_items(), known, repeatable)
            if not is_conditional and "if-match" in request.headers:
                # To ignore a condition would be worse than to refuse it.
                field = FieldProblem(header="If-Match", message="nothing here can be compared with it")
                raise ProblemError("invalid_request", f"If-Match: {field.message}", errors=(field,))
            if self.body_field is not None:
                request = await read_json(request, settings, bytes_max=self.bytes_max(settings))
            return await handle(request)

        return strict


class TextRoute(StrictRoute):
    """A route that answers with another media type than JSON and declares it."""

    produces = ("*/*",)


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
