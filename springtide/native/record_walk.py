"""What walks the records of produced batches and reads usual requests in this process: C, or Python alone.

A process chooses once, at its start, and says what it has chosen. The C is taken where it was built, unless
SPRINGTIDE_NATIVE=off asks for Python. Both give the same answers, so that is for comparing them, and for a
machine on which the C is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from springtide.wire import record_walk, shortcuts
from springtide.wire.compression import Buffer
from springtide.wire.record_walk import walk_records_in_python
from springtide.wire.shortcuts import NO_SHORTCUTS, Shortcuts

NATIVE_VARIABLE: Final = "SPRINGTIDE_NATIVE"
AUTO: Final = "auto"
OFF: Final = "off"


class BadNativeChoice(Exception):
    """The environment asks for what is not a choice."""


class Implementation(NamedTuple):
    """What walks records, and the shortcuts. why: of Python, the reason; of the C, that it was built."""

    name: Literal["native", "python"]
    walk_records: Callable[[Buffer, int, bool], tuple[int, int, int, int]]
    why: str
    shortcuts: Shortcuts = NO_SHORTCUTS


def choose_implementation(environ: Mapping[str, str]) -> Implementation:
    """Return what this process is to use. Raise BadNativeChoice unless the variable is "auto" or "off"."""
    asked = environ.get(NATIVE_VARIABLE, AUTO)
    if asked == OFF:
        return Implementation("python", walk_records_in_python, f"{NATIVE_VARIABLE}={OFF}")
    if asked != AUTO:
        raise BadNativeChoice(f"{NATIVE_VARIABLE} is {AUTO!r} or {OFF!r}, not {asked!r}")
    try:
        from springtide.native import _records, _requests  # noqa: PLC0415 - they may not have been built
    except ImportError as error:
        return Implementation("python", walk_records_in_python, str(error))
    taken = Shortcuts(_requests.request_header, _requests.produce_request, _records.plain_batch)
    return Implementation("native", _records.walk_records, "it was built", taken)


def use(implementation: Implementation) -> None:
    """Let all of this process use this implementation."""
    record_walk.walk_records = implementation.walk_records
    shortcuts.request_header, shortcuts.produce_request, shortcuts.plain_batch = implementation.shortcuts


def implementation_in_use() -> Literal["native", "python"]:
    """Return what walks records in this process."""
    return "python" if record_walk.walk_records is walk_records_in_python else "native"
