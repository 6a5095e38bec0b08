"""A round's tasks on Spark: a data source whose rows are reports, and whose reading does the writing.

It is a data source, not an RDD, because Spark Connect has no RDDs, and not mapInArrow, which needs pandas. A
task that is run twice delivers once: that is the sink's promise, so Spark may retry and speculate as it
likes. Rows never reach the JVM.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from pipeline.replay.errors import ReplayError
from pipeline.replay.task import ReplayTask, run_task
from pipeline.sink.commit import TaskReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "springtide-replay"
_TASKS = "tasks"


class TaskPartition(InputPartition):
    def __init__(self, task: ReplayTask) -> None:
        super().__init__(task.index)
        self.task = task


class ReplayTasks(DataSource):
    """Option `tasks`: of this job's driver, for its own workers; base64 of a pickle."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType([StructField("report", BinaryType())])

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReplayReader(pickle.loads(base64.b64decode(self.options[_TASKS])))  # noqa: S301 - our driver's


class ReplayReader(DataSourceReader):
    def __init__(self, tasks: Sequence[ReplayTask]) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [TaskPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        assert isinstance(partition, TaskPartition)
        try:
            yield (pickle.dumps(run_task(partition.task)),)
        except ReplayError as error:
            raise ReplayError(error.whole) from error


def run_on_spark(spark: SparkSession, tasks: Sequence[ReplayTask]) -> list[TaskReport]:
    """Carries out tasks of one round. Raises what Spark raises where one failed for good."""
    spark.dataSource.register(ReplayTasks)
    told = base64.b64encode(pickle.dumps(tuple(tasks))).decode()
    rows = spark.read.format(FORMAT).option(_TASKS, told).load().collect()
    return [pickle.loads(bytes(row["report"])) for row in rows]  # noqa: S301 - our workers'
