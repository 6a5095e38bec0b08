"""An operation's progress, as a bar or as a line. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from springtide.cli.amounts import duration, size
from springtide.cli.tables import cell

FINISHED: Final = frozenset({"succeeded", "failed", "cancelled"})
SUCCEEDED: Final = "succeeded"
BAR_COLUMNS: Final = 24

Operation = Mapping[str, Any]


class Progress(NamedTuple):
    """done of total, and both in words."""

    done: int
    total: int
    words: str


def progress_of(operation: Operation) -> Progress:
    """Return the progress by bytes where data moves, else by moves, else by steps."""
    moved = operation.get("progress") or {}
    if moved.get("bytes_total"):
        done, total = moved.get("bytes_done") or 0, moved["bytes_total"]
        return Progress(done, total, f"{size(done)} of {size(total)}")
    if moved.get("moves_total"):
        done, total = moved.get("moves_done") or 0, moved["moves_total"]
        return Progress(done, total, f"{done} of {total} moves")
    steps = operation.get("steps") or []
    done = sum(step.get("state") in ("succeeded", "skipped") for step in steps)
    return Progress(done, len(steps), f"{done} of {len(steps)} steps")


def pace_of(operation: Operation) -> str:
    """Return how fast a running operation copies and when it will be done; empty where no data moves."""
    moved = operation.get("progress") or {}
    if operation.get("state") != "running" or not moved.get("bytes_total"):
        return ""
    rate, eta = moved.get("rate_bytes_per_s"), moved.get("eta") or {}
    speed = "speed unknown" if rate is None else f"{size(rate)}/s"
    left = "time left unknown" if eta.get("p50_ms") is None else f"{duration(eta['p50_ms'])} left"
    return f"{speed}, {left}"


def bar(done: int, total: int, *, columns: int = BAR_COLUMNS) -> str:
    """Return a bar such as `[######------]`, full only when everything is done."""
    filled = 0 if total <= 0 else max(0, min(columns, columns * done // total))
    return f"[{'#' * filled}{'-' * (columns - filled)}]"


def bar_line(operation: Operation, *, columns: int) -> str:
    """Return a line for a terminal of so many columns."""
    done, total, words = progress_of(operation)
    line = f"{_name(operation)}  {bar(done, total)} {_with_pace(operation, words)}  {_state(operation)}"
    return line if len(line) <= columns else line[: max(0, columns - 3)] + "..."


def event_line(operation: Operation) -> str:
    """Return a line for a log: no bar, but every step."""
    words = _with_pace(operation, progress_of(operation).words)
    steps = ", ".join(f"{cell(step.get('name'))} {cell(step.get('state'))}" for step in _steps(operation))
    return f"{_name(operation)}  {_state(operation)}  {words}" + (f"  ({steps})" if steps else "")


def ending_line(operation: Operation) -> str:
    why = operation.get("summary")
    if cancellation := operation.get("cancellation"):
        why = cancellation.get("detail")
    if error := operation.get("error"):
        why = f"{error.get('code')}: {error.get('detail')}"
    return f"{_name(operation)}  {cell(operation.get('state'))}" + (f": {cell(why)}" if why else "")


def has_ended(operation: Operation) -> bool:
    return operation.get("state") in FINISHED


def _with_pace(operation: Operation, words: str) -> str:
    pace = pace_of(operation)
    return f"{words}, {pace}" if pace else words


def _name(operation: Operation) -> str:
    return f"{cell(operation.get('kind'))} {cell(operation.get('id'))}"


def _steps(operation: Operation) -> list[Mapping[str, Any]]:
    return list(operation.get("steps") or [])


def _state(operation: Operation) -> str:
    state = cell(operation.get("state"))
    blocked = operation.get("blocked") or []
    if not blocked or has_ended(operation):
        return state
    first = blocked[0]
    more = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
    return f"{state}, waits: {cell(first.get('code'))}: {cell(first.get('detail'))}{more}"
