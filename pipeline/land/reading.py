"""Reading a table by its manifests: with pyarrow, with Spark, or as a list of files.

A plain reader of the folder sees whole files, also of a batch that is not finished; a reader by manifest sees
whole batches. Both read `topic`, `date` and `hour` from the path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from pipeline.client.values import TopicPartition
from pipeline.errors import LandError
from pipeline.land.documents import LandedFile, TableSettings
from pipeline.land.layout import PARTITION_COLUMNS, file_columns
from pipeline.land.planning import LandedPartition
from pipeline.land.table import LandTable, table_root
from pipeline.records.decode import RECORD_COLUMNS, record_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FOLDER_FIELDS = {
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "date": pa.field("date", pa.date32()),
    "hour": pa.field("hour", pa.int32()),
}
_FOLDER_SQL = {"topic": "string", "partition": "int", "date": "date", "hour": "int"}


@dataclass(frozen=True, slots=True)
class LandedTable:
    """The contents of a table after its first `batches` batches."""

    root: Path
    table: TableSettings
    batches: int
    files: tuple[LandedFile, ...]
    partitions: Mapping[TopicPartition, LandedPartition]
    topic_ids: Mapping[str, str]

    @property
    def topics(self) -> list[str]:
        return sorted({where.topic for where in self.partitions})

    @property
    def records(self) -> int:
        return sum(state.records for state in self.partitions.values())


def landed(dest: str | Path) -> LandedTable:
    """Return what a table holds. Raises LandError if nothing was ever landed there, or if it is damaged."""
    table = LandTable(table_root(str(dest)))
    settings = table.settings()
    if settings is None:
        raise LandError(f"{table.root} is no table: nothing was landed there")
    progress, files = table.history()
    return LandedTable(table.root, settings, progress.batches, files, progress.partitions, progress.topic_ids)


def dataset(dest: str | Path, topics: Collection[str] | None = None) -> ds.Dataset:
    """Return a dataset with all columns of the source's records and those of the folders. Raises
    LandError."""
    table = landed(dest)
    folders = _folder_schema(table.table.partition_by)
    return ds.dataset(
        paths_of(table, topics),
        schema=table_schema(table.table.partition_by),
        format="parquet",
        partitioning=ds.partitioning(folders, flavor="hive") if len(folders) else None,
        partition_base_dir=str(table.root),
    )


def table_schema(partition_by: Sequence[str]) -> pa.Schema:
    """Return a table's columns: those in its files, then those of its folders."""
    stored = record_schema(file_columns(RECORD_COLUMNS, partition_by))
    return pa.unify_schemas([stored, _folder_schema(partition_by)])


def _folder_schema(partition_by: Sequence[str]) -> pa.Schema:
    return pa.schema([_FOLDER_FIELDS[name] for name in partition_by])


def read(spark: SparkSession, dest: str | Path, topics: Collection[str] | None = None) -> DataFrame:
    """Return the same as a DataFrame; filters on topic, date and hour prune files. Raises LandError."""
    table = landed(dest)
    return read_files(spark, table.root, table.table.partition_by, paths_of(table, topics))


def read_files(
    spark: SparkSession, base: Path, partition_by: Sequence[str], paths: Sequence[str]
) -> DataFrame:
    """Read files of records below `base`, with their folders' columns."""
    from pipeline.source.options import RowShape  # noqa: PLC0415 - what needs Spark is imported with Spark
    from pipeline.source.schemas import schema_of  # noqa: PLC0415

    known = schema_of(RowShape(include_headers=True))
    names = [name for name in known.fieldNames() if name not in partition_by]
    schema = ", ".join(
        [f"`{name}` {known[name].dataType.simpleString()}" for name in names]
        + [f"`{name}` {_FOLDER_SQL[name]}" for name in partition_by]
    )
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(base)).parquet(*paths)


def paths_of(table: LandedTable, topics: Collection[str] | None = None) -> list[str]:
    """Return absolute paths of the files that count. Raises LandError for a topic that the table lacks."""
    unknown = sorted(set(topics or ()) - set(table.topics))
    if unknown:
        raise LandError(f"{table.root} has no topic {', '.join(unknown)}: it has {', '.join(table.topics)}")
    wanted = None if topics is None else frozenset(topics)
    return [str(table.root / file.path) for file in table.files if wanted is None or file.topic in wanted]


assert set(_FOLDER_FIELDS) == set(_FOLDER_SQL) == set(PARTITION_COLUMNS), "each column that may be a folder"
