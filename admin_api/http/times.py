"""Times: RFC 3339 in requests and answers, milliseconds of the wall clock since 1970 UTC in between."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import AfterValidator, BeforeValidator, Field


def timestamp(at_ms: int) -> str:
    """Return the time in RFC 3339, in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_timestamp(at_ms: int | None) -> str | None:
    return None if at_ms is None else timestamp(at_ms)


def _check_zone(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone: end it with Z")
    return moment


def _check_text(value: Any) -> Any:
    # Pydantic would read a bare number as a time since 1970, and guess between seconds and milliseconds.
    if isinstance(value, str) and value.lstrip("+-").replace(".", "", 1).isdigit():
        raise ValueError("must be RFC 3339, as in 2026-11-21T09:30:00Z")
    return value


#: A time in a request, in RFC 3339.
Moment = Annotated[
    datetime,
    BeforeValidator(_check_text),
    AfterValidator(_check_zone),
]


def _only_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be RFC 3339, as in 2026-11-21T09:30:00Z")
    return value


#: The same in a body. Types are strict there, but JSON has no type for times.
BodyMoment = Annotated[Moment, Field(strict=False), BeforeValidator(_only_text)]
SinceTime = Annotated[
    Moment | None,
    Query(description="not before this time (RFC 3339)", examples=["2026-11-21T09:30:00Z"]),
]
UntilTime = Annotated[
    Moment | None, Query(description="before this time (RFC 3339)", examples=["2026-11-21T10:30:00Z"])
]


def milliseconds(moment: datetime | None) -> int | None:
    """Return the milliseconds of the wall clock since 1970 UTC."""
    return None if moment is None else int(moment.timestamp() * 1000)
