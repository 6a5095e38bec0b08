"""Bytes and times in words. Pure."""

from __future__ import annotations

from typing import Final

_TIMES: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def duration(ms: int) -> str:
    """Return a length of time in the largest unit of which there are two or more, rounded up."""
    for unit, unit_ms in _TIMES:
        if ms >= 2 * unit_ms:
            return f"{-(-ms // unit_ms)} {unit}"
    return f"{-(-ms // 1_000)} s"


def size(count: float) -> str:
    """Return a number of bytes in the unit that leaves less than 1024 of it."""
    value = float(count)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_UNITS[-1]}"
