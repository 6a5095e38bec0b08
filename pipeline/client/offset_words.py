"""Offsets for people. In code an end is exclusive, in words it is the last offset that is meant."""

from __future__ import annotations


def offsets_between(start: int, end: int) -> str:
    """Return which offsets a range has."""
    return f"offsets {start} to {end - 1}" if start < end else f"no offsets, from {end} on"


def log_holds(start: int, end: int) -> str:
    """Return what a log holds."""
    return (
        f"the log holds {start} to {end - 1}" if start < end else f"the log is empty, and continues at {end}"
    )


def log_ends(end: int) -> str:
    """Return where a log ends."""
    return f"its log ends at offset {end - 1} now" if end > 0 else "its log is empty now"


def read_until(next_offset: int) -> str:
    """Return how far was read."""
    return f"up to offset {next_offset - 1}" if next_offset > 0 else "nothing of it"
