"""Renders answers for people: aligned columns for lists, aligned fields for one resource. Pure.

Other people wrote what is shown (reasons, names, host names), so control characters become escapes: a reason
can neither break a row nor move a terminal's cursor. A table is printed a page at a time: its widths are
those of the first page.

A table fits its terminal, and no row is ever two lines. What is too wide is made narrower by one rule: the
columns that come last are the least important, and the first says what a row is about.

1. Columns are left out from the right until the least that each of the others needs fits: a number needs all
   its digits, a text eight characters, the first column twenty-four.
2. Of the others the widest is shortened until all fit, the first column last. A cell that was cut ends in …

rich is not used: a thousand rows take it half a second instead of 14 ms, it passes escapes on, and where it
is installed httpx imports it, so that every command begins 45 ms later.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from springtide.cli.amounts import duration, size

GAP: Final = "  "
NONE: Final = "-"
CUT: Final = "…"
TEXT_MIN: Final = 8
NUMBER_TITLE_MIN: Final = 10
FIRST_MIN: Final = 24
#: Wide and full-width characters take two columns of a terminal.
_WIDE: Final = frozenset("WF")
#: Controls, formats (which turn the direction of text around) and lone surrogates.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


#: What a number may be told in, besides digits.
_AMOUNTS: Final[Mapping[str, Callable[[int], str]]] = {"bytes": size, "ms": duration}


class Column(NamedTuple):
    """path: of the field in an item, with dots between nested names. amount: of a number, `bytes` or `ms`."""

    title: str
    path: str
    is_number: bool = False
    amount: str = ""

    def shown(self, item: Mapping[str, Any]) -> str:
        value = field_of(item, self.path)
        if self.amount and isinstance(value, int):
            return _AMOUNTS[self.amount](value)
        return cell(value)


def columns(titles: str) -> tuple[Column, ...]:
    """Return the columns of titles with blanks between them, such as `topic #size=size_bytes:bytes`.

    `=path` where the field's path is not the title; `#` before a number; `:bytes` or `:ms` after one that is
    told in words. The most important comes first.
    """
    return tuple(map(_column, titles.split()))


def _column(word: str) -> Column:
    named, _, amount = word.removeprefix("#").partition(":")
    title, _, path = named.partition("=")
    return Column(title.upper(), path or title, is_number=word.startswith("#"), amount=amount)


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


def cut(shown: str, width: int) -> str:
    """Return the text in at most so many columns of a terminal."""
    if width_of(shown) <= width:
        return shown
    kept, room = [], width - 1
    for char in shown:
        room -= width_of(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + CUT[:width]


class Table:
    """Lines of a list's pages, aligned with each other. width: of the terminal; None: there is no bound."""

    def __init__(self, columns: Sequence[Column], *, width: int | None = None) -> None:
        self._columns = columns
        self._width = width
        self._widths: list[int] = []
        self._left_out: list[str] = []

    def lines(self, items: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return a page's lines; the first page's begin with the titles."""
        rows = [[column.shown(item) for column in self._columns] for item in items]
        if not self._widths:
            titles = [column.title for column in self._columns]
            self._fit(titles, rows)
            rows.insert(0, titles)
        return [self._line(row) for row in rows]

    def notes(self) -> list[str]:
        """Return a line on columns that were left out, if some were."""
        if not self._left_out:
            return []
        end = ": no room; --output json has all)"
        named = f"(without {', '.join(self._left_out)}{end}"
        if self._width is None or width_of(named) <= self._width:
            return [named]
        return [f"(columns left out: {len(self._left_out)}; --output json has all)"]

    def _fit(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Choose the columns, and how wide each is, by the first page."""
        widths = [max(map(width_of, shown)) for shown in zip(titles, *rows, strict=True)]
        if self._width is not None:
            values = [max(map(width_of, shown), default=0) for shown in zip(*rows, strict=True)]
            least = [
                min(width, FIRST_MIN if at == 0 else TEXT_MIN)
                if not column.is_number
                else max(values[at] if values else 0, min(width, NUMBER_TITLE_MIN))
                for at, (column, width) in enumerate(zip(self._columns, widths, strict=True))
            ]
            widths = fitted(widths, least, self._width)
            self._left_out = list(titles[len(widths) :])
        self._widths = widths

    def _line(self, row: Sequence[str]) -> str:
        shown = GAP.join(
            padded(value, width, is_number=column.is_number)
            for value, width, column in zip(row, self._widths, self._columns, strict=False)
        ).rstrip()
        if self._width is None or width_of(shown) <= self._width:
            return shown
        # A title of a column that was made narrow, a cell that was, or one of a later page that is longer.
        narrow = GAP.join(
            padded(cut(value, width), width, is_number=column.is_number)
            for value, width, column in zip(row, self._widths, self._columns, strict=False)
        ).rstrip()
        return cut(narrow, self._width)


def fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return the widths of the columns that fit, from the first on, with gaps between them. least: what each
    needs."""
    count = len(widths)
    while count > 1 and sum(least[:count]) + len(GAP) * (count - 1) > room:
        count -= 1
    room -= len(GAP) * (count - 1)
    found = [min(width, room) for width in widths[:count]]
    while sum(found) > room:
        wide = [at for at in range(1, count) if found[at] > least[at]] or [0]
        found[max(wide, key=lambda at: (found[at], at))] -= 1
    return found


def describe(document: Mapping[str, Any], *, indent: str = "", width: int | None = None) -> list[str]:
    """Return one resource's lines: a field each, objects flattened to dotted names, lists of objects as
    tables below. width: of the terminal that the tables are to fit."""
    fields: list[tuple[str, str]] = []
    below: list[tuple[str, list[Mapping[str, Any]]]] = []
    for name, value in _flat(document, ""):
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            below.append((name, value))
        else:
            fields.append((printable(name), cell(value)))
    names = max((width_of(name) for name, _ in fields), default=0)
    lines = [f"{indent}{padded(name, names)}{GAP}{value}".rstrip() for name, value in fields]
    inner = indent + GAP
    for name, items in below:
        lines.append(f"{indent}{printable(name)}:")
        if any(_has_table(item) for item in items):
            for item in items:
                lines += describe(item, indent=inner, width=width)
            continue
        table = Table(columns_of(items), width=None if width is None else width - len(inner))
        lines += [f"{inner}{line}" for line in table.lines(items)]
        lines += [f"{inner}{line}" for line in table.notes()]
    return lines


def _has_table(item: Mapping[str, Any]) -> bool:
    """Return whether an item has lists of objects in it, which no cell could show."""
    return any(
        isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value)
        for _, value in _flat(item, "")
    )


def columns_of(items: Iterable[Mapping[str, Any]]) -> list[Column]:
    """Return columns for items without declared ones: every field that an item fills, numbers to the right.
    The first field stays first; ids and epochs come last."""
    filled: dict[str, bool] = {}
    names: dict[str, None] = {}
    for item in items:
        for name, value in item.items():
            names[name] = None
            if value is not None:
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                filled[name] = filled.get(name, True) and is_number
    first, *others = [name for name in names if name in filled] or [""]
    others.sort(key=lambda name: name.endswith(("_id", "_epoch")))
    ordered = [first, *others] if first else []
    return [Column(printable(name).upper(), name, is_number=filled[name]) for name in ordered]


def _flat(document: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
