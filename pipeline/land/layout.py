"""The places of rows: folders by topic and time, and file names that follow from the plan alone. Pure.

    DEST/topic=orders/date=2026-11-22/hour=04/orders-0-00000000000000001000-00000000000000001999.parquet

The numbers are the first and last offset of the range that a task read, not of its records: compaction may
remove records between two attempts of a task, and both must use the same names. Folders are named as Hive
names them, so Spark, pyarrow and others read their values as columns. Hours are UTC.

A record without a timestamp, or with one outside of the years 1970 to 9999, goes where Hive puts nulls.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.client.values import PartitionRange
from pipeline.errors import LandError
from pipeline.stored import TOPIC_PATTERN

PARTITION_COLUMNS = ("topic", "partition", "date", "hour")
PARTITION_BY_DEFAULT = ("topic", "date", "hour")
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
SUFFIX = ".parquet"

_US_PER_HOUR = 3_600_000_000
_HOURS_PER_DAY = 24
_EPOCH = datetime.date(1970, 1, 1)
_HOURS_END = (datetime.date(9999, 12, 31) - _EPOCH).days * _HOURS_PER_DAY + _HOURS_PER_DAY
NO_HOUR = -1
"""Every time that has no folder of its own."""
_TOPIC = re.compile(TOPIC_PATTERN)
_TOPIC_CHARACTERS_KEPT = 140
_SEGMENT = re.compile(r"[a-zA-Z0-9._=~-]{1,255}\Z")

Int64s = npt.NDArray[np.int64]


class FolderGroup(NamedTuple):
    """The rows of a record batch that go to one folder: `rows` are their indices, ascending; None: all."""

    hour: int
    rows: Int64s | None


def parse_partition_by(text: str) -> tuple[str, ...]:
    """Parse `topic,date,hour`. Raises LandError for unknown or repeated columns."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    check_partition_by(names)
    return names


def check_partition_by(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in PARTITION_COLUMNS]
    if unknown or len(set(names)) != len(names):
        raise LandError(
            f"can't partition by {', '.join(names)!r}: each of {', '.join(PARTITION_COLUMNS)} once, or none"
        )
    if "hour" in names and "date" not in names[: names.index("hour")]:
        raise LandError("can't partition by 'hour' without 'date' before it: an hour is one of a date's")


def check_topic(topic: str) -> str:
    """Return the topic. Raises LandError unless brokers allow the name: it can't leave its folder then."""
    if not _TOPIC.match(topic):
        raise LandError(f"{topic!r} is no topic name")
    return topic


def hours_of(timestamps_us: Int64s) -> Int64s:
    """Return hours since 1970, or NO_HOUR. Shape (n,) of microseconds to (n,)."""
    hours = timestamps_us // _US_PER_HOUR
    return np.where((hours < 0) | (hours >= _HOURS_END), NO_HOUR, hours)


def group_by_folder(timestamps_us: Int64s, partition_by: Sequence[str]) -> list[FolderGroup]:
    """Group rows by folder, in the order of time; all rows are one group where time does not decide."""
    if "date" not in partition_by or not len(timestamps_us):
        return [FolderGroup(NO_HOUR, None)] if len(timestamps_us) else []
    hours = hours_of(timestamps_us)
    if "hour" not in partition_by:
        hours = np.where(hours == NO_HOUR, NO_HOUR, hours // _HOURS_PER_DAY * _HOURS_PER_DAY)
    first = int(hours[0])
    if bool((hours == first).all()):
        return [FolderGroup(first, None)]
    order = np.argsort(hours, kind="stable")
    begins = np.flatnonzero(np.diff(hours[order], prepend=hours[order[0]] - 1))
    return [
        FolderGroup(int(hours[rows[0]]), rows) for rows in np.split(order, begins[1:].tolist()) if len(rows)
    ]


def folder(partition_by: Sequence[str], *, topic: str, partition: int, hour: int) -> str:
    """Return `topic=orders/date=2026-11-22/hour=04`; "" without partition columns."""
    parts = []
    for name in partition_by:
        match name:
            case "topic":
                value = check_topic(topic)
            case "partition":
                value = str(partition)
            case "date":
                value = NULL_FOLDER if hour == NO_HOUR else str(date_of(hour))
            case _:
                value = NULL_FOLDER if hour == NO_HOUR else f"{hour % _HOURS_PER_DAY:02d}"
        parts.append(f"{name}={value}")
    return "/".join(parts)


def date_of(hour: int) -> datetime.date:
    return _EPOCH + datetime.timedelta(days=hour // _HOURS_PER_DAY)


def file_name(one: PartitionRange) -> str:
    """Return a name that no other range has, at most 255 bytes, that readers don't take for a hidden file."""
    name = check_topic(one.topic)
    if len(name) > _TOPIC_CHARACTERS_KEPT:
        # `~` is in no topic's name, so a cut one can't be another's whole.
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        name = f"{name[:_TOPIC_CHARACTERS_KEPT]}~{digest}"
    if name.startswith(("_", ".")):
        name = f"topic={name}"  # no topic's name has `=` in it either
    return f"{name}-{one.partition}-{one.start_offset:020d}-{one.end_offset - 1:020d}{SUFFIX}"


def check_path(path: object) -> str:
    """Return a data file's path. Raises ValueError unless it is relative and stays below the table."""
    if not isinstance(path, str) or not path.endswith(SUFFIX):
        raise ValueError(f"{path!r} is no data file's path")
    for segment in path.split("/"):
        if not _SEGMENT.match(segment) or segment.startswith("."):
            raise ValueError(f"{path!r} is no data file's path")
    return path


def folder_values(path: str) -> dict[str, str | None]:
    """Return the partition columns' values in a data file's path; None stands for null."""
    values: dict[str, str | None] = {}
    for segment in path.split("/")[:-1]:
        name, _, value = segment.partition("=")
        values[name] = None if value == NULL_FOLDER else value
    return values


def file_columns(columns: Iterable[str], partition_by: Sequence[str]) -> tuple[str, ...]:
    """Return the columns in the files: those that are not in the path."""
    return tuple(name for name in columns if name not in partition_by)
