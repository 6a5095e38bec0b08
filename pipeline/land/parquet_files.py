"""One range's rows as Parquet files, a file for each folder; whole and synced before they have a name.

Rows are held until they make a row group, within a bound for the whole task; so a file's row groups depend on
how fetches came, its rows do not. If a file has the name already, an earlier attempt at the same range wrote
it: it stays, and its footer is what is reported.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.client.values import PartitionRange
from pipeline.errors import LandError
from pipeline.files import SharedDisk, make_directories
from pipeline.land.documents import LandedFile
from pipeline.land.layout import file_columns, file_name, folder, group_by_folder
from pipeline.land.table import aside_directory
from pipeline.records.decode import RECORD_COLUMNS, record_schema

ROW_GROUP_BYTES = 64 * 1024 * 1024
"""Rows in memory; on disk a row group is smaller."""
HELD_BYTES_MAX = 128 * 1024 * 1024
"""Rows that a task holds. Beyond it the largest folders' rows become row groups early."""
OPEN_FILES_MAX = 400
FOLDERS_MAX = 100_000
IDENTITY = b"springtide.land"
"""The key of a file's identity in its footer."""

_US_PER_MS = 1000
_LEVELLED = ("zstd", "gzip")
_DELTA_COLUMNS = ("offset", "timestamp")
_DICTIONARY_COLUMNS = ("key", "topic", "partition", "timestampType")
_STATISTICS_COLUMNS = ("partition", "offset", "timestamp")


class FileSettings(NamedTuple):
    """Settings for writing files, the same for a whole batch."""

    root: Path
    batch: int
    topic_ids: Mapping[str, str]
    partition_by: tuple[str, ...]
    compression: str
    compression_level: int | None


class _Folder:
    """One file that is being written."""

    __slots__ = ("aside", "held", "held_bytes", "hour", "range", "writer")

    def __init__(self, one: PartitionRange, hour: int) -> None:
        self.range = one
        self.hour = hour
        self.held: list[pa.RecordBatch] = []
        self.held_bytes = 0
        self.writer: pq.ParquetWriter | None = None
        self.aside: Path | None = None


class RangeFiles:
    """The files of a task's ranges. Call `add` with rows in their order, then `finish`; `abandon` in any
    case."""

    def __init__(self, settings: FileSettings, disk: SharedDisk | None = None) -> None:
        self._settings = settings
        self._disk = disk or SharedDisk()
        columns = file_columns(RECORD_COLUMNS, settings.partition_by)
        self._schema = record_schema(columns)
        self._options = _writer_options(columns, settings)
        self._folders: dict[PartitionRange, dict[int, _Folder]] = {}
        self._folder_count = 0
        self._held_bytes = 0

    def add(self, one: PartitionRange, rows: pa.RecordBatch) -> None:
        """Add rows of the range, of record_schema(RECORD_COLUMNS). Raises LandError."""
        folders = self._folders.setdefault(one, {})
        timestamps = rows.column("timestamp").cast(pa.int64()).to_numpy()
        kept = rows.select(self._schema.names)
        for group in group_by_folder(timestamps, self._settings.partition_by):
            if group.hour not in folders:
                self._folder_count += 1
                if self._folder_count > FOLDERS_MAX:
                    raise LandError(
                        f"{one.where}: records of one task are from more than {FOLDERS_MAX} hours",
                        "Partition by topic alone (--partition-by topic), or lower --records-per-task.",
                    )
                folders[group.hour] = _Folder(one, group.hour)
            self._hold(folders[group.hour], kept if group.rows is None else kept.take(pa.array(group.rows)))
        if self._held_bytes > HELD_BYTES_MAX:
            self._flush_largest()

    def finish(self) -> dict[PartitionRange, tuple[LandedFile, ...]]:
        """Name the files of every range, durably; return what stands there now. A range without rows has no
        files and is not in the answer. Raises LandError, OSError."""
        paths = {
            one: [self._name(folders[hour]) for hour in sorted(folders)]
            for one, folders in self._folders.items()
        }
        named = (self._settings.root / path for each in paths.values() for path in each)
        for directory in sorted({target.parent for target in named}):
            self._disk.sync(directory)
        self._folders = {}
        return {
            one: tuple(describe_file(self._settings, one, path) for path in each)
            for one, each in paths.items()
        }

    def abandon(self) -> None:
        """Close what is open and remove what has no name."""
        for folders in self._folders.values():
            for each in folders.values():
                if each.writer is not None:
                    with suppress(OSError):  # a full disk is why we are here, and says so again
                        each.writer.close()
                if each.aside is not None:
                    self._disk.unlink(each.aside)
        self._folders = {}

    def _hold(self, each: _Folder, rows: pa.RecordBatch) -> None:
        size = rows.nbytes
        each.held.append(rows)
        each.held_bytes += size
        self._held_bytes += size
        if each.held_bytes >= ROW_GROUP_BYTES:
            self._flush(each)

    def _flush_largest(self) -> None:
        """Flush until half of HELD_BYTES_MAX is held, so that this is not due again at once."""
        by_size = sorted(
            (each for folders in self._folders.values() for each in folders.values()),
            key=lambda each: -each.held_bytes,
        )
        for each in by_size:
            if self._held_bytes <= HELD_BYTES_MAX // 2:
                return
            self._flush(each)

    def _flush(self, each: _Folder) -> None:
        """Write the held rows as a row group."""
        if each.writer is None:
            self._open(each)
        assert each.writer is not None
        each.writer.write_table(pa.Table.from_batches(each.held, self._schema))
        self._held_bytes -= each.held_bytes
        each.held, each.held_bytes = [], 0

    def _open(self, each: _Folder) -> None:
        opened = sum(
            other.writer is not None for folders in self._folders.values() for other in folders.values()
        )
        if opened >= OPEN_FILES_MAX:
            raise LandError(
                f"{each.range.where}: records of one task are spread over more than {OPEN_FILES_MAX} hours, "
                "with more in each than can be held",
                "Lower --records-per-task, or partition by date or topic alone (--partition-by topic,date).",
            )
        directory = aside_directory(self._settings.root, self._settings.batch)
        make_directories(self._disk, directory)
        each.aside = directory / f"{uuid.uuid4().hex}.parquet"
        schema = self._schema.with_metadata({IDENTITY: _identity(self._settings, each.range)})
        each.writer = pq.ParquetWriter(each.aside, schema, **self._options)

    def _name(self, each: _Folder) -> str:
        """Give a whole file its name unless that is taken; durable once its directory is synced."""
        settings, one = self._settings, each.range
        if each.held:
            self._flush(each)
        assert each.writer is not None and each.aside is not None, "a folder has rows"
        each.writer.close()
        self._disk.sync(each.aside)
        inside = folder(settings.partition_by, topic=one.topic, partition=one.partition, hour=each.hour)
        path = f"{inside}/{file_name(one)}" if inside else file_name(one)
        target = settings.root / path
        make_directories(self._disk, target.parent)
        with suppress(FileExistsError):
            self._disk.link(each.aside, target)
        self._disk.unlink(each.aside)
        return path


def describe_file(settings: FileSettings, one: PartitionRange, path: str) -> LandedFile:
    """Describe the file at `path` by its footer. Raises LandError unless it is of this range and batch."""
    target = settings.root / path
    try:
        metadata = pq.read_metadata(target)
    except (pa.ArrowInvalid, OSError) as error:
        raise LandError(f"{target} is no Parquet file: {error}", _FOREIGN) from error
    if (metadata.metadata or {}).get(IDENTITY) != _identity(settings, one):
        raise LandError(
            f"{target} is there already, and not of batch {settings.batch} of this table", _FOREIGN
        )
    offsets = _bounds(metadata, "offset")
    timestamps = _bounds(metadata, "timestamp")
    if offsets is None or timestamps is None:
        raise LandError(f"{target} has no statistics", _FOREIGN)
    return LandedFile(
        path,
        *one,
        records=metadata.num_rows,
        bytes=target.stat().st_size,
        min_offset=offsets[0],
        max_offset=offsets[1],
        min_timestamp_ms=timestamps[0] // _US_PER_MS,
        max_timestamp_ms=timestamps[1] // _US_PER_MS,
    )


_FOREIGN = "Nothing of it is overwritten. Move it away, or land to another place."


def _identity(settings: FileSettings, one: PartitionRange) -> bytes:
    return json.dumps(
        {
            "batch": settings.batch,
            "topic": one.topic,
            "topicId": settings.topic_ids.get(one.topic, ""),
            "partition": one.partition,
            "startOffset": one.start_offset,
            "endOffset": one.end_offset,
        },
        separators=(",", ":"),
    ).encode()


def _bounds(metadata: pq.FileMetaData, column: str) -> tuple[int, int] | None:
    """Return the least and largest stored value of a column of 64-bit numbers."""
    names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    index = names.index(column) if column in names else None
    if index is None:
        return None
    found: list[int] = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(index).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        found += (int(statistics.min_raw), int(statistics.max_raw))
    return (min(found), max(found)) if found else None


def _writer_options(columns: Sequence[str], settings: FileSettings) -> dict[str, Any]:
    """Store offsets and times as deltas, a byte or two each; use dictionaries where values repeat; keep
    statistics where readers prune by them, none of payloads."""
    compression = settings.compression
    return {
        "compression": compression,
        "compression_level": settings.compression_level if compression in _LEVELLED else None,
        "use_dictionary": [name for name in columns if name in _DICTIONARY_COLUMNS],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in columns if name in _DELTA_COLUMNS},
        "write_statistics": [name for name in columns if name in _STATISTICS_COLUMNS],
        "write_page_index": False,
    }
