"""A job's tasks on Spark: a data source whose partitions are the tasks and whose rows are what they return.

It is a data source, not an RDD, because Spark Connect has no RDDs, and not mapInArrow, which needs pandas.
The tasks travel in an option of the data source, so driver and executors share only this package. What a task
reads of a log stays in its worker: only what it returns reaches the JVM."""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from pipeline.errors import AdvisedError
from pipeline.source.reading import joined
from pipeline.worker_process import calm_the_collector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")
FORMAT = "springtide-tasks"
PROGRESS_S = 0.5
_WORK = "work"
_RESULT = StructType([StructField("result", BinaryType())])


class _Work(NamedTuple):
    """`run` is a function of a module, or a partial of one: it is pickled by name."""

    run: Callable[[Any], Any]
    tasks: Sequence[Any]
    gives_rows: bool


class _TaskPartition(InputPartition):
    def __init__(self, task: Any) -> None:
        super().__init__(None)
        self.task = task


class JobTasks(DataSource):
    """Option `work`: what this job's driver pickled for its own workers."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:
        encoded = zlib.decompress(base64.b64decode(self.options[_WORK]))
        return JobTaskReader(pickle.loads(encoded))  # noqa: S301 - our driver's


class JobTaskReader(DataSourceReader):
    def __init__(self, work: _Work) -> None:
        self._run, self._gives_rows = work.run, work.gives_rows
        self._tasks = work.tasks

    def partitions(self) -> list[InputPartition]:
        return [_TaskPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes] | pa.RecordBatch]:
        if not isinstance(partition, _TaskPartition):
            return  # Spark makes up a partition where there are no tasks
        calm_the_collector()
        try:
            result = self._run(partition.task)
            if self._gives_rows:
                yield from joined(result)
            else:
                yield (pickle.dumps(result),)
        except AdvisedError as error:
            raise type(error)(error.whole) from error  # only the text reaches the driver


def run_tasks(
    spark: SparkSession,
    run: Callable[[T], R],
    tasks: Sequence[T],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[R]:
    """Return what `run` returned for each task; `progress` hears how many of how many tasks are done.

    Spark may run a task again, and several attempts of one task at a time. Raises what Spark raises if a task
    failed for good.
    """
    if not tasks:
        return []
    frame = _frame(spark, _Work(run, tuple(tasks), gives_rows=False), _RESULT)
    rows = frame.collect() if progress is None else _collect(spark, frame, len(tasks), progress)
    return [pickle.loads(bytes(row[0])) for row in rows]  # noqa: S301 - our workers'


def task_rows(
    spark: SparkSession,
    run: Callable[[T], Iterator[pa.RecordBatch]],
    tasks: Sequence[T],
    schema: StructType,
) -> DataFrame:
    """Return the rows that `run` yields for all tasks."""
    return _frame(spark, _Work(run, tuple(tasks), gives_rows=True), schema)


def _frame(spark: SparkSession, work: _Work, schema: StructType) -> DataFrame:
    spark.dataSource.register(JobTasks)
    encoded = base64.b64encode(zlib.compress(pickle.dumps(work), 1)).decode()
    return spark.read.format(FORMAT).schema(schema).option(_WORK, encoded).load()


def _collect(spark: SparkSession, frame: Any, tasks: int, progress: Callable[[int, int], None]) -> list[Any]:
    """Collect the rows in a thread, and watch how far the tasks are."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    if context is None:
        return list(frame.collect())
    rows: list[Any] = []
    failures: list[BaseException] = []

    def collect() -> None:
        try:
            rows.extend(frame.collect())
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=collect, name="collect-tasks", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PROGRESS_S)
            progress(min(_done(context), tasks - 1), tasks)
    except KeyboardInterrupt:
        context.cancelAllJobs()
        thread.join()
        raise
    if failures:
        raise failures[0]
    progress(tasks, tasks)
    return rows


def _done(context: Any) -> int:
    """Return how many tasks of the running stages are done; 0 where Spark can't tell."""
    tracker = context.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(0 if info is None else info.numCompletedTasks for info in infos)
