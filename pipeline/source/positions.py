"""The start and end of reading, as users say them: one closed union, parsed from options by Spark's rules.

If several are given the first of these counts: `startingTimestamp`, `startingOffsetsByTimestamp`,
`startingOffsets`; the same for `ending*` (Spark, Structured Streaming + Kafka Integration Guide).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pipeline.client.values import EARLIEST, LATEST
from pipeline.errors import InvalidOption
from pipeline.source.offset_json import (
    INT64_MAX,
    Offsets,
    offsets_have_marks,
    parse_offsets,
    parse_timestamps,
)


class LogEnd(Enum):
    """An end of every log. The value is its mark in offset JSON and its timestamp in ListOffsets."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True)
class AtOffsets:
    """Offsets, or the marks EARLIEST and LATEST, for exactly the partitions that are read."""

    option: str
    offsets: Offsets


@dataclass(frozen=True)
class AtTimestamps:
    """The first record at or after a time: one time (ms) for all partitions, or one for each.

    `or_latest`: a partition without such a record begins at its end; otherwise that is an error.
    """

    option: str
    timestamps: int | Offsets
    or_latest: bool


Position = LogEnd | AtOffsets | AtTimestamps

STRATEGY = "startingOffsetsByTimestampStrategy"


def parse_starting(options: Mapping[str, str], *, is_streaming: bool) -> Position:
    """Return where to begin. `options` by lower-case name. Raises InvalidOption."""
    strategy = options.get(STRATEGY.lower(), "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidOption(f"option '{STRATEGY}' must be 'error' or 'latest', not {strategy!r}")
    default = LogEnd.LATEST if is_streaming else LogEnd.EARLIEST
    position = _parse(options, "starting", default, or_latest=strategy == "latest")
    if not is_streaming:
        _refuse(position, LogEnd.LATEST, "starting offset can't be latest for batch queries")
    return position


def parse_ending(options: Mapping[str, str], *, is_streaming: bool) -> Position:
    """Return where to end; only batch queries have an end. Raises InvalidOption."""
    if is_streaming:
        for name in _names("ending"):
            if name.lower() in options:
                raise InvalidOption(f"option '{name}' is not valid in streaming queries: they have no end")
        return LogEnd.LATEST
    position = _parse(options, "ending", LogEnd.LATEST, or_latest=True)
    _refuse(position, LogEnd.EARLIEST, "ending offset can't be earliest for batch queries")
    return position


def _names(end: str) -> tuple[str, str, str]:
    return f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"


def _parse(options: Mapping[str, str], end: str, default: LogEnd, *, or_latest: bool) -> Position:
    timestamp, by_timestamp, offsets = _names(end)
    if (text := options.get(timestamp.lower())) is not None:
        return AtTimestamps(timestamp, _timestamp(text, timestamp), or_latest)
    if (text := options.get(by_timestamp.lower())) is not None:
        return AtTimestamps(by_timestamp, parse_timestamps(text, by_timestamp), or_latest)
    if (text := options.get(offsets.lower())) is None:
        return default
    match text.strip().lower():
        case "earliest":
            return LogEnd.EARLIEST
        case "latest":
            return LogEnd.LATEST
    return AtOffsets(offsets, parse_offsets(text, offsets))


def _timestamp(text: str, option: str) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        value = -1
    if not 0 <= value <= INT64_MAX:
        raise InvalidOption(
            f"option '{option}' must be milliseconds since 1970, not {text!r}. {offsets_have_marks(option)}"
        )
    return value


def _refuse(position: Position, edge: LogEnd, why: str) -> None:
    if position is edge:
        raise InvalidOption(why)
    if isinstance(position, AtOffsets):
        for where, offset in sorted(position.offsets.items()):
            if offset == edge.value:
                raise InvalidOption(f"option '{position.option}': {where}: {why}")
