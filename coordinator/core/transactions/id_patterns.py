"""Patterns of transactional ids in ListTransactions (KIP-1152): a part of RE2's, matched in linear time.

Kafka takes any pattern of RE2. Here it is literals, with a backslash before those that RE2 has a meaning for,
`.` for any character and `.*` for any characters, and no more: no engine for the rest that takes linear time
is at hand, and one that does not is a way to stop a coordinator. As in Kafka the pattern has to match the
whole id, and `.` is no line feed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PATTERN_CHARS_MAX: Final = 1_000
_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")
_ANY: Final = None


class UnknownPattern(ValueError):
    """The pattern is not of RE2, or of a part of it that is not known here."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return whether a text matches, as a function. Raise UnknownPattern."""
    items, loops = _parse(pattern)
    last = 1 << len(items)
    literals = [char for char in items if char is not None]
    of_any = sum(1 << place for place, item in enumerate(items) if item is _ANY)
    #: By character: the places that take it.
    takes: dict[str, int] = dict.fromkeys(literals, of_any)
    for place, item in enumerate(items):
        if item is not None:
            takes[item] |= 1 << place
    takes["\n"] = takes.get("\n", of_any) & ~of_any
    pieces = _pieces(items, loops)

    def matches(text: str) -> bool:
        # Each bit of `at` says that so many items may be used up. What has not all literals is told quickly.
        if not all(piece in text for piece in pieces):
            return False
        at = 1
        for char in text:
            stays = 0 if char == "\n" else at & loops
            at = ((at & takes.get(char, of_any)) << 1) | stays
            if not at:
                return False
        return bool(at & last)

    return matches


def _parse(pattern: str) -> tuple[list[str | None], int]:
    """Return the items (a character, or None for any one), and as bits the places where `.*` stands."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise UnknownPattern(f"it has more than {PATTERN_CHARS_MAX} characters")
    items: list[str | None] = []
    loops = 0
    place = 0
    while place < len(pattern):
        char = pattern[place]
        place += 1
        if char == ".":
            if pattern[place : place + 1] == "*":
                place += 1
                loops |= 1 << len(items)
            else:
                items.append(_ANY)
        elif char == "\\":
            escaped = pattern[place : place + 1]
            if not escaped or escaped.isalnum() or ord(escaped) > 127:
                raise UnknownPattern(f"\\{escaped} is not known")
            items.append(escaped)
            place += 1
        elif char in _SPECIAL:
            raise UnknownPattern(f"{char} is not known here, other than after a backslash")
        else:
            items.append(char)
    return items, loops


def _pieces(items: list[str | None], loops: int) -> list[str]:
    """Return the literals that follow each other without a gap."""
    pieces = [""]
    for place, item in enumerate(items):
        if item is None or loops >> place & 1:
            pieces.append("")
        pieces[-1] += item or ""
    return [piece for piece in pieces if piece]
