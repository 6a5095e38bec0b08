"""Rendering of what routes return: JSON bytes, ETags, the age of a standby's copy, and these header fields in
the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Request, Response
from pydantic import BaseModel

from admin_api.http.bodies import VERSIONED_MEDIA_TYPE
from admin_api.http.conditions import entity_tag
from admin_api.http.problems import WRITE_PROBLEMS, problems
from controller.face.cluster import KnownCluster

#: Milliseconds since the standby's copy was last known to be current.
AGE_HEADER: Final = "Data-Age-Ms"
#: On a stored answer to an earlier request with the same Idempotency-Key.
REPLAYED_HEADER: Final = "Idempotency-Replayed"

AGE_HEADERS = {
    AGE_HEADER: {
        "description": "On a standby: how old the answer may be, in milliseconds (`Age`: in seconds).",
        "schema": {"type": "integer"},
    }
}
ETAG_HEADERS = {
    "ETag": {
        "description": "of this answer; its part before the dot is the version that `If-Match` compares",
        "schema": {"type": "string"},
        "example": '"17.0f3a9c1d2b4e5f60"',
    }
}
REPLAYED_HEADERS = {
    REPLAYED_HEADER: {
        "description": "`true` when this is the stored answer to an earlier request with the same key",
        "schema": {"type": "string"},
    }
}
LOCATION_HEADERS = {
    "Location": {"description": "the operation", "schema": {"type": "string"}},
    "Retry-After": {"description": "seconds until a look is worth it", "schema": {"type": "integer"}},
}
Responses = dict[int | str, dict[str, Any]]


def done(description: str, *codes: str, headers: Mapping[str, Any] = REPLAYED_HEADERS) -> Responses:
    """Return `responses=` of a write that is over when it is answered. codes: of its own problems."""
    return {200: {"description": description, "headers": headers}, **problems(*codes, *WRITE_PROBLEMS)}


def accepted(
    dry_run: object, would_be: str, *codes: str, description: str = "Accepted: follow the operation"
) -> Responses:
    """Return `responses=` of a write that starts an operation. dry_run: the model of what a dry run answers,
    and what that is. codes: of its own problems."""
    return {
        202: {"description": description, "headers": LOCATION_HEADERS | REPLAYED_HEADERS},
        200: {"model": dry_run, "description": would_be},
        **problems(*codes, *WRITE_PROBLEMS),
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body as it goes over the wire, and the header fields that belong to it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Detail for the audit, beside "succeeded": what was known of the consequences.
    detail: str | None = None

    @classmethod
    def of(cls, status: int, body: BaseModel, *, version: str | None = None, **headers: str) -> Answer:
        """Return an answer with this body. Header names are given as identifiers: `Retry_After` stands for
        Retry-After. version: of the resource that the body shows, for its ETag."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        encoded = body.model_dump_json().encode()
        if version is not None:
            named["ETag"] = entity_tag(version, encoded)
        return cls(status, encoded, named)


def respond(request: Request, answer: Answer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers), media_type=media_type_for(request))


def media_type_for(request: Request) -> str:
    """Return the versioned media type if the client asked for it by name."""
    return (
        VERSIONED_MEDIA_TYPE
        if VERSIONED_MEDIA_TYPE in request.headers.get("accept", "")
        else "application/json"
    )


def show(
    request: Request, body: BaseModel, *, view: KnownCluster | None = None, version: str | None = None
) -> Response:
    """Return the response to a GET. view: what the body was read from. version: of the row of a single
    resource."""
    encoded = body.model_dump_json().encode()
    headers: dict[str, str] = {}
    if view is not None and view.as_of_ms is not None:
        age_ms = max(0, request.app.state.services.clock.now_mono_ms() - view.as_of_ms)
        headers = {AGE_HEADER: str(age_ms), "Age": str(age_ms // 1000)}
    if version is not None:
        headers["ETag"] = entity_tag(version, encoded)
        if _matches(request.headers.get("if-none-match"), headers["ETag"]):
            return Response(status_code=304, headers=headers)
    return respond(request, Answer(200, encoded, headers))


def _matches(condition: str | None, etag: str) -> bool:
    if condition is None:
        return False
    candidates = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in candidates or etag in candidates
