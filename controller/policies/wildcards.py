"""LIKE and GLOB as SQLite has them, in time that is bounded by the lengths of text and pattern.

SQLite's own go back for every wildcard, within one step of its machine: a pattern with ten over a text
of some thousand characters takes years, and nothing can stop it. Here each wildcard is decided once, by an
atomic group, which finds the same matches.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

PATTERN_CHARS_MAX: Final = 250
_NEVER: Final = re.compile(r"(?!)")
_ANY: Final = "."
#: Among a pattern's parts, which are otherwise expressions for one character each.
_MANY: Final = ""


class BadPattern(Exception):
    """The pattern or its escape is not one that is taken."""


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """Return what matches whole texts as `LIKE pattern ESCAPE escape` does: ASCII letters of both cases are
    equal. Raise BadPattern."""
    _check(pattern)
    if escape is not None and len(escape) != 1:
        raise BadPattern("ESCAPE takes one character")
    parts, rest = [], iter(pattern)
    for char in rest:
        if char == escape:
            escaped = next(rest, None)
            if escaped is None:
                return _NEVER
            parts.append(re.escape(escaped))
        else:
            parts.append({"%": _MANY, "_": _ANY}.get(char, re.escape(char)))
    return _compiled(parts, re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=256)
def glob_pattern(pattern: str) -> re.Pattern[str]:
    """Return what matches whole texts as `GLOB pattern` does. Raise BadPattern."""
    _check(pattern)
    parts, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            is_without = pattern.startswith("^", at + 1)
            first = at + 1 + is_without
            end = pattern.find("]", first + 1)  # a ] in the first place is one of the characters
            if end < 0:
                return _NEVER
            parts.append(_one_of(pattern[first:end], is_without=is_without))
            at = end
        else:
            parts.append({"*": _MANY, "?": _ANY}.get(char, re.escape(char)))
        at += 1
    return _compiled(parts, 0)


def _check(pattern: str) -> None:
    if len(pattern) > PATTERN_CHARS_MAX:
        raise BadPattern(f"a pattern may have {PATTERN_CHARS_MAX} characters")


def _one_of(chars: str, *, is_without: bool) -> str:
    """Return the expression for the inside of [...]: characters, and ranges such as a-z."""
    found, at, before = [], 0, ""
    while at < len(chars):
        char = chars[at]
        if char == "-" and before and at + 1 < len(chars):
            at += 1
            if before <= chars[at]:
                found.append(f"{re.escape(before)}-{re.escape(chars[at])}")
            before = ""
        else:
            found.append(re.escape(char))
            before = "" if char == "]" else char  # a ] in the first place begins no range
        at += 1
    return f"[{'^' if is_without else ''}{''.join(found)}]"


def _compiled(parts: list[str], flags: int) -> re.Pattern[str]:
    pieces: list[list[str]] = [[]]
    for part in parts:
        if part == _MANY:
            pieces.append([])
        else:
            pieces[-1].append(part)
    first, *others = ("".join(piece) for piece in pieces)
    expression = first
    if others:
        expression += "".join(f"(?>.*?{piece})" for piece in others[:-1] if piece) + ".*" + others[-1]
    return re.compile(expression + r"\Z", flags | re.DOTALL)
