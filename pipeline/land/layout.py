"""Where rows go: folders by topic and time, and file names that follow from the plan alone. Pure.

    DEST/topic=orders/date=2026-11-22/hour=04/orders-0-00000000000000001000-00000000000000001999.parquet

The numbers are the first and last offset of the range that a task read, not of the records it found:
compaction may take records between two attempts of a task, and the second must find the names of the first. A
folder's values are Hive's, so Spark, pyarrow and others read them as columns. Hours are UTC.

A record without a timestamp, or with one that no calendar's year 1 to 9999 holds, goes where Hive puts nulls.
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
from pipeline.land.errors import LandError

PARTITION_COLUMNS = ("topic", "partition", "date", "hour")
PARTITION_BY_DEFAULT = ("topic", "date", "hour")
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
SUFFIX = ".parquet"

_US_PER_HOUR = 3_600_000_000
_HOURS_PER_DAY = 24
_EPOCH = datetime.date(1970, 1, 1)
_HOURS_END = (datetime.date(9999, 12, 31) - _EPOCH).days * _HOURS_PER_DAY + _HOURS_PER_DAY
NO_HOUR = -1
"""Stands for every time that has no folder of its own."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_TOPIC_CHARACTERS_KEPT = 140
_SEGMENT = re.compile(r"[a-zA-Z0-9._=~-]{1,255}\Z")

Int64s = npt.NDArray[np.int64]


class FolderGroup(NamedTuple):
    """The rows of a record batch that go to one folder: `rows` are their indices, ascending; None: all."""

    hour: int
    rows: Int64s | None


def parse_partition_by(text: str) -> tuple[str, ...]:
    """`topic,date,hour` as columns. Raises LandError for unknown or repeated ones."""
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
    """A name that brokers allow, so it can't leave its folder. Raises LandError."""
    if not _TOPIC.match(topic) or topic in (".", ".."):
        raise LandError(f"{topic!r} is no topic name")
    return topic


def hours_of(timestamps_us: Int64s) -> Int64s:
    """Hours since 1970, or NO_HOUR. Shape (n,) of microseconds to (n,)."""
    hours = timestamps_us // _US_PER_HOUR
    return np.where((hours < 0) | (hours >= _HOURS_END), NO_HOUR, hours)


def group_by_folder(timestamps_us: Int64s, partition_by: Sequence[str]) -> list[FolderGroup]:
    """Rows by folder, in the order of time; one group of all rows where time does not decide the folder."""
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
    """`topic=orders/date=2026-11-22/hour=04`, or "" where nothing partitions."""
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
    """A name that no other range has, of at most 255 bytes, that readers don't take for a hidden file's."""
    name = check_topic(one.topic)
    if len(name) > _TOPIC_CHARACTERS_KEPT:
        # `~` is in no topic's name, so a cut one can't be another's whole.
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        name = f"{name[:_TOPIC_CHARACTERS_KEPT]}~{digest}"
    if name.startswith(("_", ".")):
        name = f"topic={name}"  # no topic's name has `=` in it either
    return f"{name}-{one.partition}-{one.start_offset:020d}-{one.end_offset - 1:020d}{SUFFIX}"


def check_path(path: object) -> str:
    """A data file's path as a manifest has it: relative, and going nowhere but down. Raises ValueError."""
    if not isinstance(path, str) or not path.endswith(SUFFIX):
        raise ValueError(f"{path!r} is no data file's path")
    for segment in path.split("/"):
        if not _SEGMENT.match(segment) or segment.startswith("."):
            raise ValueError(f"{path!r} is no data file's path")
    return path


def folder_values(path: str) -> dict[str, str | None]:
    """The partition columns' values in a data file's path; None stands for null."""
    values: dict[str, str | None] = {}
    for segment in path.split("/")[:-1]:
        name, _, value = segment.partition("=")
        values[name] = None if value == NULL_FOLDER else value
    return values


def file_columns(columns: Iterable[str], partition_by: Sequence[str]) -> tuple[str, ...]:
    """What stands in the files: a column that is in the path is not there twice."""
    return tuple(name for name in columns if name not in partition_by)
