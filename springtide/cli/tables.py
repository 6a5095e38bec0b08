"""Renders answers for people: aligned columns for lists, aligned fields for one resource. Pure.

Other people wrote what is shown (reasons, names, host names), so control characters become escapes: a reason
can neither break a row nor move a terminal's cursor. A table is printed a page at a time: its widths are
those of the first page, and a later, longer cell pushes the rest of its row to the right, uncut.

rich is not used: a thousand rows take it half a second instead of 14 ms, it passes escapes on, and where it
is installed httpx imports it, so that every command begins 45 ms later.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

GAP: Final = "  "
NONE: Final = "-"
#: Wide and full-width characters take two columns of a terminal.
_WIDE: Final = frozenset("WF")
#: Controls, formats (which turn the direction of text around) and lone surrogates.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Column(NamedTuple):
    """path: of the field in an item, with dots between nested names."""

    title: str
    path: str
    is_number: bool = False


def columns(titles: str) -> tuple[Column, ...]:
    """Return the columns of titles with blanks between them, such as `topic #bytes=size_bytes`.

    `=path` where the field's path is not the title; `#` before a number.
    """
    return tuple(map(_column, titles.split()))


def _column(word: str) -> Column:
    title, _, path = word.removeprefix("#").partition("=")
    return Column(title.upper(), path or title, is_number=word.startswith("#"))


def cell(value: object) -> str:
    """Return any value as one line without control characters."""
    match value:
        case None:
            return NONE
        case bool():
            return "yes" if value else "no"
        case str():
            return printable(value)
        case Mapping():
            return ", ".join(f"{printable(str(key))}={cell(item)}" for key, item in value.items()) or NONE
        case list() | tuple():
            separator = ", " if any(isinstance(item, Mapping) for item in value) else ","
            return separator.join(cell(item) for item in value) or NONE
        case _:
            return str(value)


def printable(value: str) -> str:
    if value.isprintable():
        return value
    return "".join(
        char.encode("unicode_escape").decode("ascii") if unicodedata.category(char) in _UNPRINTABLE else char
        for char in value
    )


def width_of(shown: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if shown.isascii():
        return len(shown)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in _WIDE else 1
        for char in shown
    )


def padded(shown: str, width: int, *, is_number: bool = False) -> str:
    room = " " * (width - width_of(shown))
    return room + shown if is_number else shown + room


def field_of(item: Mapping[str, Any], path: str) -> object:
    value: Any = item
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


class Table:
    """Lines of a list's pages, aligned with each other."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._widths: list[int] = []

    def lines(self, items: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return a page's lines; the first page's begin with the titles."""
        rows = [[cell(field_of(item, column.path)) for column in self._columns] for item in items]
        if not self._widths:
            rows.insert(0, [column.title for column in self._columns])
            self._widths = [max(map(width_of, shown)) for shown in zip(*rows, strict=True)]
        return [self._line(row) for row in rows]

    def _line(self, row: Sequence[str]) -> str:
        shown = (
            padded(value, width, is_number=column.is_number)
            for value, width, column in zip(row, self._widths, self._columns, strict=True)
        )
        return GAP.join(shown).rstrip()


def describe(document: Mapping[str, Any], *, indent: str = "") -> list[str]:
    """Return one resource's lines: a field each, objects flattened to dotted names, lists of objects as
    tables below."""
    fields: list[tuple[str, str]] = []
    below: list[tuple[str, list[Mapping[str, Any]]]] = []
    for name, value in _flat(document, ""):
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            below.append((name, value))
        else:
            fields.append((printable(name), cell(value)))
    width = max((width_of(name) for name, _ in fields), default=0)
    lines = [f"{indent}{padded(name, width)}{GAP}{value}".rstrip() for name, value in fields]
    for name, items in below:
        lines.append(f"{indent}{printable(name)}:")
        table = Table(columns_of(items))
        lines += [f"{indent}{GAP}{line}" for line in table.lines(items)]
    return lines


def columns_of(items: Iterable[Mapping[str, Any]]) -> list[Column]:
    """Return columns for items without declared ones: every field that an item fills, numbers to the
    right."""
    filled: dict[str, bool] = {}
    names: dict[str, None] = {}
    for item in items:
        for name, value in item.items():
            names[name] = None
            if value is not None:
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                filled[name] = filled.get(name, True) and is_number
    return [Column(printable(name).upper(), name, is_number=filled[name]) for name in names if name in filled]


def _flat(document: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
