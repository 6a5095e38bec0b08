"""Salvage's tasks on Spark: a data source whose rows are identity rows, or reports of what was merged.

It is a data source, not an RDD, because Spark Connect has no RDDs, and not mapInArrow, which needs pandas.
Records never reach the JVM: identity rows are small, and a merging task gives what it reads to the sink
itself.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import PartitionRange
from pipeline.clock import wall_ms
from pipeline.records.encode import BatchOptions
from pipeline.records.headers import DamagedBatch
from pipeline.salvage.copies import CopyPiece
from pipeline.salvage.errors import CopyUnreadable, LogChanged
from pipeline.salvage.identity import IDENTITY_SCHEMA, Place, Window, identity_rows
from pipeline.salvage.merge_plan import ONLY_BATCH, TargetPlan
from pipeline.salvage.merge_rows import merge_rows
from pipeline.salvage.reading import CopyReader
from pipeline.sink.commit import TaskReport
from pipeline.sink.delivery import DeliveryOptions
from pipeline.sink.identity import derive_identity
from pipeline.sink.opening import TopicOpening
from pipeline.sink.task import TaskSettings, TaskWriter
from pipeline.source.reading import joined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "springtide-salvage"
_TASKS, _VIEW = "tasks", "view"
_IDENTITIES, _REPORTS = "identities", "reports"
_TYPES: dict[pa.DataType, DataType] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
    pa.binary(): BinaryType(),
}
IDENTITIES = StructType([StructField(field.name, _TYPES[field.type]) for field in IDENTITY_SCHEMA])
REPORTS = StructType([StructField("report", BinaryType())])


class CutTask(NamedTuple):
    """Pieces of copies, to be read as identity rows."""

    client: ClientConfig
    pieces: tuple[CopyPiece, ...]
    keyed: frozenset[int]
    """Targets whose records' keys are compared."""


class LogPiece(NamedTuple):
    """A range of the log in which a target's records are looked for."""

    target: int
    range: PartitionRange
    with_keys: bool
    window: Window | None


class LogTask(NamedTuple):
    client: ClientConfig
    pieces: tuple[LogPiece, ...]


class MergeTask(NamedTuple):
    """`number` is the task's place in the plan: it is part of who it is to the brokers."""

    client: ClientConfig
    number: int
    sink_id: str
    target: TargetPlan
    opening: TopicOpening
    batch_bytes: int


Task = CutTask | LogTask | MergeTask


def cut_rows(task: CutTask) -> Iterator[pa.RecordBatch]:
    """Raises CopyUnreadable, ClientError."""
    reader = CopyReader(task.client)
    for piece in task.pieces:
        place = Place(piece.target, piece.copy, piece.copy_first, piece.high_watermark)
        reached = piece.start_offset
        for read in reader.read(
            piece.broker_id,
            piece.name,
            piece.partition,
            start_offset=piece.start_offset,
            end_offset=piece.end_offset,
        ):
            try:
                yield from identity_rows(
                    read.records,
                    place,
                    first_offset=reached,
                    end_offset=piece.end_offset,
                    with_keys=piece.target in task.keyed,
                )
            except DamagedBatch as error:
                raise CopyUnreadable(
                    f"the copy {piece.name} of broker {piece.broker_id} is damaged: {error}"
                ) from error
            reached = read.next_offset


def log_rows(task: LogTask) -> Iterator[pa.RecordBatch]:
    """Raises LogChanged, DamagedBatch, ClientError."""
    pieces = {piece.range.where: piece for piece in task.pieces}
    with (
        Client(task.client) as client,
        client.fetch([piece.range for piece in task.pieces]) as stream,
    ):
        try:
            for fetched in stream:
                piece = pieces[fetched.where]
                if len(fetched.records):
                    yield from identity_rows(
                        fetched.records,
                        Place(piece.target),
                        first_offset=fetched.start_offset,
                        end_offset=piece.range.end_offset,
                        with_keys=piece.with_keys,
                        window=piece.window,
                    )
        except OffsetsGone as error:
            raise LogChanged(f"{error}. The log was cut or trimmed while it was read: run again") from error


def merge(task: MergeTask) -> TaskReport:
    """Raises DeliveryFailed, CopyUnreadable, ClientError; what is stored by then stays, and counts."""
    settings = TaskSettings(
        identity=derive_identity(task.sink_id, batch_id=ONLY_BATCH, task_index=task.number),
        task_index=task.number,
        topic=None,
        batches=BatchOptions(batch_bytes_max=task.batch_bytes),
        delivery=DeliveryOptions(),
        now_ms=wall_ms,
    )
    with Client(task.client) as client:
        writer = TaskWriter(client, settings, lambda topic: task.opening)
        for rows in merge_rows(CopyReader(task.client), task.target):
            writer.add(rows)
        return TaskReport(task.number, dict(writer.finish()))


class TaskPartition(InputPartition):
    def __init__(self, task: Task) -> None:
        super().__init__(None)
        self.task = task


class SalvageTasks(DataSource):
    """Options: `view`, and `tasks` of this job's driver for its own workers, base64 of a pickle."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return IDENTITIES if self.options[_VIEW] == _IDENTITIES else REPORTS

    def reader(self, schema: StructType) -> DataSourceReader:
        return SalvageReader(_unpickle(base64.b64decode(self.options[_TASKS])))


class SalvageReader(DataSourceReader):
    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [TaskPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TaskPartition):
            return  # Spark makes up a partition where there are no tasks
        task = partition.task
        match task:
            case CutTask():
                yield from joined(cut_rows(task))
            case LogTask():
                yield from joined(log_rows(task))
            case MergeTask():
                report = pa.array([pickle.dumps(merge(task))], pa.binary())
                yield pa.RecordBatch.from_arrays([report], names=REPORTS.names)


def identities(spark: SparkSession, tasks: Sequence[CutTask | LogTask]) -> DataFrame:
    """IDENTITY_SCHEMA of what the tasks read."""
    return _frame(spark, tasks, _IDENTITIES)


def merge_on_spark(spark: SparkSession, tasks: Sequence[MergeTask]) -> list[TaskReport]:
    """Carries the tasks out. Raises what Spark raises where one failed for good."""
    rows = _frame(spark, tasks, _REPORTS).collect() if tasks else []
    return [_unpickle(row[0]) for row in rows]


def _frame(spark: SparkSession, tasks: Sequence[Task], view: str) -> DataFrame:
    spark.dataSource.register(SalvageTasks)
    encoded = base64.b64encode(pickle.dumps(list(tasks))).decode()
    return spark.read.format(FORMAT).option(_VIEW, view).option(_TASKS, encoded).load()


def _unpickle(encoded: bytes) -> Any:
    """What this job's driver or one of its own workers has pickled: Spark carries code between them as
    well."""
    return pickle.loads(encoded)  # noqa: S301
