"""Sizes, spans of time and lists as people write them. Pure."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import Final

from pipeline.plan.request import WEIGHTS

_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SPANS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)([KMGTP]?)B?\Z")
_SPAN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhdw])\Z")
_WHERE: Final = re.compile(r"([0-9]{1,9})=(\S+)\Z")


def size(text: str) -> int:
    """Bytes of `500`, `64M`, `1.5T`; units are powers of 1024."""
    found = _SIZE.match(text)
    if found is None:
        raise ArgumentTypeError(f"must be bytes such as 500, 64M or 1.5T: {text!r}")
    return int(float(found[1]) * _UNITS[found[2]]) if "." in found[1] else int(found[1]) * _UNITS[found[2]]


def span(text: str) -> float:
    """Seconds of `30s`, `10m`, `2h`, `7d`, `1w`; more than none."""
    found = _SPAN.match(text)
    seconds = float(found[1]) * _SPANS[found[2]] if found else 0.0
    if seconds <= 0:
        raise ArgumentTypeError(f"must be a span of time such as 30s, 10m, 2h or 7d: {text!r}")
    return seconds


def share(text: str) -> float:
    """A part of a whole, 0 to less than 1."""
    value = _number(text)
    if not 0.0 <= value < 1.0:
        raise ArgumentTypeError(f"must be from 0 to less than 1: {text!r}")
    return value


def target(text: str) -> int:
    """Highest over mean, more than 1, in thousandths."""
    value = _number(text)
    if not 1.001 <= value <= 100.0:
        raise ArgumentTypeError(f"must be from 1.001 to 100, such as 1.1: {text!r}")
    return round(value * 1000)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ArgumentTypeError(f"must be a number: {text!r}") from error


def weights(text: str) -> tuple[str, ...]:
    """`disk,bytes_in` as their names."""
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in WEIGHTS]
    if unknown or not names:
        raise ArgumentTypeError(f"must be some of {','.join(WEIGHTS)}: {text!r}")
    return tuple(dict.fromkeys(names))


def address(text: str) -> tuple[int, str]:
    """`1=store1:9192`: a broker's id and where something of it is."""
    found = _WHERE.match(text)
    if found is None:
        raise ArgumentTypeError(f"must be BROKER=HOST:PORT: {text!r}")
    return int(found[1]), found[2]


def shown_span(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`, `2.1 d`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"
