"""Renders what routes return: JSON bytes, ETags, and how old a standby's copy is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fastapi import Request, Response
from pydantic import BaseModel

from admin_api.strict_route import VERSIONED_MEDIA_TYPE
from controller.shell.published import Published

#: Milliseconds since the copy that a standby answers from was known to be current.
AGE_HEADER: Final = "Data-Age-Ms"

AGE_HEADERS = {
    AGE_HEADER: {
        "description": "On a standby: how old the answer may be, in milliseconds (`Age`: in seconds).",
        "schema": {"type": "integer"},
    }
}
ETAG_HEADERS = {
    "ETag": {"description": "changes whenever the resource's own row does", "schema": {"type": "string"}}
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body as it goes over the wire, and the header fields that belong to it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, status: int, body: BaseModel, **headers: str) -> Answer:
        """Header names are given as identifiers: `Retry_After` stands for Retry-After."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(status, body.model_dump_json().encode(), named)


def respond(request: Request, answer: Answer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers), media_type=media_type_for(request))


def media_type_for(request: Request) -> str:
    """The versioned type for whoever asked for it by name."""
    return (
        VERSIONED_MEDIA_TYPE
        if VERSIONED_MEDIA_TYPE in request.headers.get("accept", "")
        else "application/json"
    )


def show(
    request: Request, body: BaseModel, *, view: Published | None = None, etag: str | None = None
) -> Response:
    """Answers a GET. view: what it was read from; etag: the version of a single resource's own row."""
    headers: dict[str, str] = {}
    if view is not None and view.as_of_ms is not None:
        age_ms = max(0, request.app.state.services.clock.now_mono_ms() - view.as_of_ms)
        headers = {AGE_HEADER: str(age_ms), "Age": str(age_ms // 1000)}
    if etag is not None:
        headers["ETag"] = f'"{etag}"'
        if _matches(request.headers.get("if-none-match"), headers["ETag"]):
            return Response(status_code=304, headers=headers)
    return respond(request, Answer(200, body.model_dump_json().encode(), headers))


def _matches(condition: str | None, etag: str) -> bool:
    if condition is None:
        return False
    candidates = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in candidates or etag in candidates
