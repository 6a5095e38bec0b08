"""The latest record of each key, as a view beside a table: the records that Kafka's log compaction would
keep.

    _latest/<batches>-<id>/topic=orders/part-*.parquet     the rows, written by Spark
    _springtide/latest/<batches>.json                      which folder is the view after so many batches

Keys are compared within a partition, as in compaction: a key that moved when its topic got more partitions is
there twice. A record without a value (a tombstone) removes its key; records without a key are not in the
view. A view is made of the one before it and of what landed since: a partition's batches meet in the order of
offsets, so no older record comes later. A folder counts once its document names it, so a crash leaves no half
view; the folders of views before the last are removed.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from pipeline.errors import LandError
from pipeline.files import SharedDisk, StoredFiles
from pipeline.land.reading import read_files
from pipeline.land.table import DIRECTORY, LandTable, table_root
from pipeline.records.decode import RECORD_COLUMNS
from pipeline.stored import check_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = "_latest"
_DOCUMENTS = "latest"
_BYTES_MAX = 4096
_VERSION = 1
_FOLDER_PATTERN = r"^[0-9]{20}-[0-9a-f]{32}\Z"
_FOLDER_NAME = re.compile(_FOLDER_PATTERN)
_DOCUMENT_NAME = re.compile(r"\d{20}\.json\Z")


class LatestView(NamedTuple):
    """A view that counts: of the first `batches` batches, in `folder` of the table."""

    batches: int
    folder: str


def latest_view(root: Path, disk: SharedDisk | None = None) -> LatestView | None:
    """Return the last view of a table; None if there is none. Raises LandError."""
    files = StoredFiles(LandError, bytes_max=_BYTES_MAX, disk=disk)
    directory = root / DIRECTORY / _DOCUMENTS
    names = [name for name in files.names(directory) if _DOCUMENT_NAME.match(name)]
    if not names:
        return None
    path = directory / names[-1]
    return decode_view(files.read(path) or b"", str(path), batches=int(names[-1][:20]))


def encode_view(view: LatestView) -> bytes:
    return json.dumps({"version": _VERSION, **view._asdict()}).encode()


class _ViewDocument(msgspec.Struct):
    batches: int
    folder: Annotated[str, msgspec.Meta(pattern=_FOLDER_PATTERN)]


def decode_view(encoded: bytes, name: str, *, batches: int) -> LatestView:
    """Return what `encode_view` encoded for so many batches. Raises LandError for anything else."""
    try:
        check_version(encoded, _VERSION)
        found = msgspec.json.decode(encoded, type=_ViewDocument)
        if found.batches != batches:
            raise ValueError("of other batches")
    except (ValueError, RecursionError) as error:
        raise LandError(
            f"{name} is damaged, or not ours: {error!r}", "Remove it: the view is made again by --compact."
        ) from error
    return LatestView(batches, found.folder)


def compact(spark: SparkSession, table: LandTable, disk: SharedDisk | None = None) -> LatestView:
    """Bring the view up to the table's last batch. Raises LandError, or what Spark raises."""
    stored = StoredFiles(LandError, bytes_max=_BYTES_MAX, disk=disk)
    before = latest_view(table.root, disk)
    batches = table.progress().batches
    if before is not None and before.batches >= batches:
        return before
    files = [
        file
        for manifest in table.manifests(0 if before is None else before.batches)
        if manifest.batch < batches
        for file in manifest.files
    ]
    settings = table.settings()
    assert settings is not None, "something was landed"
    paths = [str(table.root / file.path) for file in files]
    rows = read_files(spark, table.root, settings.partition_by, paths).select(*RECORD_COLUMNS)
    if before is not None:
        rows = _read_view(spark, table.root, before).unionByName(rows)
    folder = f"{batches:020d}-{uuid.uuid4().hex}"
    latest_of(rows).write.partitionBy("topic").parquet(str(table.root / FOLDER / folder))
    path = table.root / DIRECTORY / _DOCUMENTS / f"{batches:020d}.json"
    try:
        _sync_all(stored.disk, table.root / FOLDER / folder)
    except OSError as error:
        raise LandError(f"{table.root / FOLDER / folder} can't be written: {error}") from error
    held = stored.put_if_absent(path, encode_view(LatestView(batches, folder)))
    view = decode_view(held, str(path), batches=batches)
    kept = {view.folder, before.folder if before is not None else ""}
    for name in stored.names(table.root / FOLDER):
        if _FOLDER_NAME.match(name) and name not in kept and int(name[:20]) <= batches:
            stored.disk.remove_tree(table.root / FOLDER / name)
    return view


def _sync_all(disk: SharedDisk, folder: Path) -> None:
    """Sync what Spark wrote, before a durable document names it."""
    for each in (folder, *folder.rglob("*")):
        disk.sync(each)
    disk.sync(folder.parent)
    disk.sync(folder.parent.parent)


def latest_of(rows: DataFrame) -> DataFrame:
    """Return the last row of each (topic, partition, key), if it has a value."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the view's document is read without Spark

    whole = f.struct(*RECORD_COLUMNS)
    latest = (
        rows.where(f.col("key").isNotNull())
        .groupBy("topic", "partition", "key")
        .agg(f.max_by(whole, f.col("offset")).alias("row"))
    )
    return latest.where(f.col("row.value").isNotNull()).select("row.*")


def read_latest(spark: SparkSession, dest: str | Path, topics: Collection[str] | None = None) -> DataFrame:
    """Return the last view, with the columns of the source. Raises LandError if there is none."""
    root = table_root(str(dest))
    view = latest_view(root)
    if view is None:
        raise LandError(
            f"{root} has no view of the latest records", "`pipeline land ... --compact` makes it."
        )
    rows = _read_view(spark, root, view)
    return rows if topics is None else rows.where(rows["topic"].isin(list(topics)))


def _read_view(spark: SparkSession, root: Path, view: LatestView) -> DataFrame:
    path = root / FOLDER / view.folder
    files: Sequence[str] = [str(each) for each in sorted(path.glob("topic=*/*.parquet"))]
    return read_files(spark, path, ("topic",), files).select(*RECORD_COLUMNS)
