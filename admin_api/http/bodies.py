"""Strict JSON bodies: a body is read once, up to its limit, and refused if two parsers could understand it
differently.

Python's reader accepts NaN, keeps the last of several equal keys, and recurses until it fails. According
to RFC 8259 the first is not JSON and the second is unpredictable. Both have led to one system checking a
value and another system using a different one.
"""

from __future__ import annotations

import email.message
import json
from contextlib import aclosing
from typing import Any, Final, NoReturn

from fastapi import Request

from admin_api.http.problems import ProblemError
from admin_api.settings import ApiSettings

#: A number longer than this is not read digit by digit; it counts as "far outside of 64 bits".
INTEGER_CHARS_MAX = 40
_HUGE: int = 10**INTEGER_CHARS_MAX


class Unreadable(Exception):
    """The bytes are not a JSON document that every parser would read in the same way."""


def parse_json(data: bytes, *, depth_max: int) -> Any:
    """Return the document's value. Raises Unreadable, with a sentence for the client."""
    if not data.strip():
        raise Unreadable("the body is empty")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"the body is not UTF-8: byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise Unreadable("the body starts with a byte order mark")
    _check_depth(text, depth_max)
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_unique, parse_int=_bounded_int
        )
    except json.JSONDecodeError as error:
        raise Unreadable(f"{error.msg}: line {error.lineno}, column {error.colno}") from None
    _check_text(value)
    return value


def _check_depth(text: str, depth_max: int) -> None:
    """Count brackets outside of strings before the recursive reader sees them; raise Unreadable if they are
    too deep."""
    depth = 0
    in_string = False
    escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > depth_max:
                raise Unreadable(f"the body is nested more than {depth_max} levels deep")
        elif character in "]}":
            depth -= 1


def _check_text(value: Any) -> None:
    """Raise Unreadable for half a surrogate pair: JSON's grammar allows it, but it encodes no text."""
    match value:
        case str():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise Unreadable("a string contains half a surrogate pair") from None
        case dict():
            for key, item in value.items():
                _check_text(key)
                _check_text(item)
        case list():
            for item in value:
                _check_text(item)


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            shown = key if len(key) <= INTEGER_CHARS_MAX else key[:INTEGER_CHARS_MAX] + "..."
            raise Unreadable(f"the key {json.dumps(shown)} occurs more than once in one object")
        found[key] = value
    return found


def _bounded_int(digits: str) -> int:
    if len(digits) > INTEGER_CHARS_MAX:
        return -_HUGE if digits.startswith("-") else _HUGE
    return int(digits)


#: Version 1 of the interface, for clients that want to name it. `application/json` means the newest version.
VERSIONED_MEDIA_TYPE: Final = "application/vnd.springtide.v1+json"
JSON_MEDIA_TYPES: Final = ("application/json", VERSIONED_MEDIA_TYPE)


class JsonRequest(Request):
    """A request whose body has been read and parsed. parsed: the body's value."""

    def __init__(self, request: Request, body: bytes, parsed: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._read = body
        self.parsed = parsed

    async def body(self) -> bytes:
        return self._read

    async def json(self) -> Any:
        return self.parsed


async def read_json(request: Request, settings: ApiSettings, *, bytes_max: int) -> JsonRequest:
    """Return the request with its body. Raise the problem of a body that is not JSON, too large, too slow or
    unreadable."""
    check_content_type(request.headers.get("content-type"))
    body = await _read_in_time(request, settings, bytes_max)
    try:
        return JsonRequest(request, body, parse_json(body, depth_max=settings.json_depth_max))
    except Unreadable as error:
        raise ProblemError("unreadable_body", str(error)) from None


async def _read_in_time(request: Request, settings: ApiSettings, bytes_max: int) -> bytes:
    with request.app.state.services.clock.timeout_ms(settings.body_timeout_ms):
        return await _read_body(request, bytes_max)
    raise ProblemError(
        "request_timeout",
        f"the request's body took longer than {settings.body_timeout_ms / 1000:g} s",
        headers={"Connection": "close"},
    )


async def _read_body(request: Request, bytes_max: int) -> bytes:
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
