"""Parquet files as a source: what there is to replay, and the rows of a piece of it.

A lake is read by pyarrow's file systems: a mounted path, file://, s3://, gs://, hdfs://. A table of `pipeline
land` is read by its manifests, so files of an interrupted batch don't count; any other lake is every
*.parquet file below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pipeline.client.values import PartitionRange
from pipeline.errors import LandError, ReplayError
from pipeline.files import mounted_path
from pipeline.land.documents import LandedFile
from pipeline.land.reading import landed
from pipeline.land.table import DIRECTORY
from pipeline.replay.plan import NO_PARTITION, NO_TIME, FilePiece, LakeFile, ReplaySettings, Stream
from pipeline.replay.rows import OFFSET, columns_of, merged_by_offset, sink_rows

SUFFIX = ".parquet"
BATCH_BYTES = 4 * 1024 * 1024
ROWS_MIN, ROWS_MAX = 64, 65_536
FOOTERS_AT_ONCE = 16


class Lake(NamedTuple):
    """A place that is read. `location`: as it was given, but paths are absolute, since executors have other
    working directories."""

    location: str

    @classmethod
    def at(cls, given: str) -> Lake:
        path = mounted_path(given)
        return cls(given if path is None else str(path.absolute()))

    @property
    def path(self) -> Path | None:
        """The path; None if it is not on a mounted file system."""
        return mounted_path(self.location)

    def open(self) -> tuple[fs.FileSystem, str]:
        """Return the file system and the root in it. Raises ReplayError for a place that pyarrow can't
        read."""
        try:
            if self.path is not None:
                return fs.LocalFileSystem(), self.location
            found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(self.location)
            return found
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ReplayError(f"{self.location} can't be read: {error}") from error


class Found(NamedTuple):
    """The contents of a source. has_partitions: each record's partition is known. partition_max: the highest
    one; NO_PARTITION if partitions are only in the rows."""

    streams: tuple[Stream, ...]
    has_partitions: bool
    partition_max: int
    files: int
    bytes: int

    @property
    def records(self) -> int:
        return sum(piece.records for stream in self.streams for piece in stream)


def is_landed(lake: Lake) -> bool:
    """Return whether the lake is a table of `pipeline land` on a mounted path."""
    return lake.path is not None and (lake.path / DIRECTORY).is_dir()


def find_landed(lake: Lake, topic: str | None, *, from_ms: int = NO_TIME, until_ms: int = NO_TIME) -> Found:
    """Return what manifests list of a topic (None for the only one), a stream for each partition, without
    files that have no record between the two times. Raises ReplayError."""
    try:
        table = landed(lake.location)
    except LandError as error:
        raise ReplayError(str(error), error.advice) from error
    topics = table.topics
    if topic is None and len(topics) != 1:
        raise ReplayError(
            f"{lake.location} holds {len(topics)} topics: {', '.join(topics[:20]) or 'none'}",
            "Say which of them: --source-topic NAME.",
        )
    wanted = topics[0] if topic is None else topic
    if wanted not in topics:
        raise ReplayError(f"{lake.location} has no topic {wanted}: it has {', '.join(topics[:20])}")
    files = [
        file
        for file in table.files
        if file.topic == wanted
        and file.max_timestamp_ms >= from_ms
        and (until_ms == NO_TIME or file.min_timestamp_ms < until_ms)
    ]
    partitions = [where.partition for where in table.partitions if where.topic == wanted]
    return Found(
        streams_of(files),
        True,
        max(partitions, default=NO_PARTITION),
        files=len(files),
        bytes=sum(file.bytes for file in files),
    )


def streams_of(files: Iterable[LandedFile]) -> tuple[Stream, ...]:
    """Return a stream for each partition, in the order of its offsets.

    A range that landed in several folders is one piece a folder, unless their offsets overlap (records with
    earlier timestamps came late): then it is one piece, whose files are merged as they are read.
    """
    by_range: dict[PartitionRange, list[LandedFile]] = {}
    for file in files:
        by_range.setdefault(file.range, []).append(file)
    streams: dict[int, list[FilePiece]] = {}
    for one in sorted(by_range):
        run: list[LandedFile] = []
        for file in sorted(by_range[one], key=lambda file: file.min_offset):
            if run and file.min_offset > max(each.max_offset for each in run):
                streams.setdefault(one.partition, []).append(_piece(run))
                run = []
            run.append(file)
        streams.setdefault(one.partition, []).append(_piece(run))
    return tuple(tuple(streams[partition]) for partition in sorted(streams))


def _piece(files: Sequence[LandedFile]) -> FilePiece:
    return FilePiece(
        tuple(LakeFile(file.path, file.bytes) for file in files),
        files[0].partition,
        sum(file.records for file in files),
    )


def find_parquet(lake: Lake) -> Found:
    """Return every Parquet file below a path as a stream of its own: a lake tells no order of files. Raises
    ReplayError if there is none, or one whose columns are no records."""
    system, root = lake.open()
    try:
        _refuse_pieces_of_tables(lake, system, root)
        files = _parquet_files(system, root)
        if not files:
            raise ReplayError(f"{lake.location}: no Parquet file is there")
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            footers = list(pool.map(partial(_footer, system, root), files))
    except (pa.ArrowException, OSError) as error:
        raise ReplayError(f"{lake.location} can't be read: {error}") from error
    streams: list[Stream] = []
    all_tell, highest = True, NO_PARTITION
    for file, footer in zip(files, footers, strict=True):
        partition = _partition_in(file.path)
        tells = "partition" in columns_of(footer.schema.to_arrow_schema(), file.path)
        all_tell = all_tell and (tells or partition != NO_PARTITION)
        if footer.num_rows:
            streams.append((FilePiece((file,), NO_PARTITION if tells else partition, footer.num_rows),))
            highest = max(highest, partition)
    return Found(
        tuple(streams), all_tell, highest, files=len(files), bytes=sum(file.size_bytes for file in files)
    )


def _refuse_pieces_of_tables(lake: Lake, system: fs.FileSystem, root: str) -> None:
    """Raise ReplayError for a folder of a table, which may hold files that don't count."""
    above = [] if lake.path is None else [path for path in lake.path.parents if (path / DIRECTORY).is_dir()]
    if above:
        raise ReplayError(
            f"{lake.location} is a part of {above[0]}, a table of `pipeline land`, and may hold files of "
            "batches that were never finished",
            "Replay the table, with --source-topic, --starting-timestamp and --ending-timestamp.",
        )
    if system.get_file_info(_join(root, DIRECTORY)).type == fs.FileType.Directory:
        raise ReplayError(
            f"{lake.location} is a table of `pipeline land`, whose manifests can't be read there",
            "Give a path where it is mounted.",
        )


def _parquet_files(system: fs.FileSystem, root: str) -> list[LakeFile]:
    told = system.get_file_info(root)
    if told.type == fs.FileType.File:
        return [LakeFile(".", told.size)]
    if told.type != fs.FileType.Directory:
        raise ReplayError(f"{root}: there is no such file or folder")
    prefix = root.rstrip("/") + "/"
    found = [
        LakeFile(each.path.removeprefix(prefix), each.size)
        for each in system.get_file_info(fs.FileSelector(root, recursive=True))
        if each.type == fs.FileType.File and each.path.endswith(SUFFIX)
    ]
    return sorted(file for file in found if not _is_hidden(file.path))


def _is_hidden(path: str) -> bool:
    """Return whether Spark and Hive pass over the path: `_temporary`, `_SUCCESS`, `.part-0.crc`."""
    return any(part.startswith((".", "_")) and "=" not in part for part in path.split("/"))


def _partition_in(path: str) -> int:
    """Return the value of a folder `partition=7`, or NO_PARTITION."""
    for segment in path.split("/")[:-1]:
        name, _, value = segment.partition("=")
        if name == "partition" and value.isascii() and value.isdigit() and len(value) <= 9:
            return int(value)
    return NO_PARTITION


def _footer(system: fs.FileSystem, root: str, file: LakeFile) -> pq.FileMetaData:
    try:
        with system.open_input_file(_join(root, file.path)) as opened:
            return pq.read_metadata(opened)
    except (pa.ArrowException, OSError) as error:
        raise ReplayError(f"{file.path} is no Parquet file that can be read: {error}") from error


def _join(root: str, path: str) -> str:
    return root if path == "." else f"{root.rstrip('/')}/{path}"


def lake_rows(
    lake: Lake, pieces: Sequence[FilePiece], settings: ReplaySettings, *, now_ms: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the pieces in their order, as the sink takes them. Raises ReplayError."""
    system, root = lake.open()
    for piece in pieces:
        for rows in _piece_rows(system, root, piece):
            chosen = sink_rows(rows, settings, partition=piece.partition, now_ms=now_ms)
            if chosen.num_rows:
                yield chosen


def _piece_rows(system: fs.FileSystem, root: str, piece: FilePiece) -> Iterator[pa.RecordBatch]:
    sources = [_file_rows(system, root, file, with_offset=len(piece.files) > 1) for file in piece.files]
    yield from sources[0] if len(sources) == 1 else merged_by_offset(sources)


def _file_rows(
    system: fs.FileSystem, root: str, file: LakeFile, *, with_offset: bool
) -> Iterator[pa.RecordBatch]:
    try:
        with system.open_input_file(_join(root, file.path)) as opened:
            if opened.size() != file.size_bytes:
                raise ReplayError(
                    f"{file.path} has {opened.size()} bytes, and had {file.size_bytes} when the replay was "
                    "planned: it is another file now, and records of it may be stored already",
                    "Put the old file back. Or begin again, with another --checkpoint.",
                )
            parquet = pq.ParquetFile(opened)
            names = columns_of(parquet.schema_arrow, file.path)
            if not with_offset:
                names.pop(OFFSET, None)
            for rows in parquet.iter_batches(
                batch_size=_rows_at_once(parquet.metadata), columns=list(names.values())
            ):
                yield rows.select(list(names.values())).rename_columns(list(names))
    except (pa.ArrowException, OSError) as error:
        raise ReplayError(f"{file.path} can't be read: {error}") from error


def _rows_at_once(footer: pq.FileMetaData) -> int:
    size = sum(footer.row_group(index).total_byte_size for index in range(footer.num_row_groups))
    fitting: int = BATCH_BYTES * footer.num_rows // max(size, 1)
    return max(ROWS_MIN, min(ROWS_MAX, fitting))
