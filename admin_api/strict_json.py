"""A strict JSON reader: it refuses a body that two parsers could understand differently.

Python's reader accepts NaN, keeps the last of several equal keys, and recurses until it fails. According to
RFC 8259 the first is not JSON and the second is unpredictable. Both have led to one system checking a value
and another system using a different one. Pure.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

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
