"""Durations as people write them, such as `7 d` or `1 h 30 m`, and the milliseconds that are stored. Pure."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_MS: Final = dict(_UNITS) | {"m": 60_000, "w": 604_800_000}
_PART: Final = re.compile(r"([0-9]{1,19}) *(w|d|h|min|ms|m|s) *(?![a-z])")
#: A larger number stands for "never" (Kafka's Long.MAX_VALUE) and has no words.
_DAYS_MAX: Final = 100_000


def milliseconds(text: str) -> int | None:
    """Return the milliseconds of parts such as `7 d`, `90s` or `1 h 30 min`, the largest unit first and none
    twice; None if the text is not like this. `m` is a minute."""
    total, at, before = 0, 0, _MS["w"] + 1
    text = text.strip().lower()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        size = _MS[part[2]]
        if size >= before:
            return None
        total, at, before = total + int(part[1]) * size, part.end(), size
    return total if at else None


def told(ms: int) -> str:
    """Return milliseconds with units where these help, else as `500 ms`."""
    return in_words(ms) or f"{ms} ms"


def in_words(ms: int) -> str | None:
    """Return milliseconds as `7 d` or `1 h 30 min`, exactly; None of less than a second, which is best told
    in milliseconds, and of more than any cluster lasts."""
    if not 1_000 <= ms <= _DAYS_MAX * 86_400_000:
        return None
    parts, rest = [], ms
    for unit, size in _UNITS:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts)
