"""A verification's tasks on Spark: a data source whose rows are the tasks' reports.

A data source, not an RDD, because Spark Connect has no RDDs. The plan travels in an option, so that executors
need to share nothing but this package. Bytes of records never reach the JVM.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from pipeline.verify.reader import RangeTask, ReadOptions, verify_ranges
from pipeline.verify.report import RangeReport, decode_report, encode_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "springtide-verify"
PROGRESS_S = 0.5
PLAN_BYTES_MAX = 512 * 1024 * 1024
"""Of a plan before it is packed: millions of ranges."""


class _Plan(msgspec.Struct, frozen=True, array_like=True):
    options: ReadOptions
    tasks: tuple[tuple[RangeTask, ...], ...]


class VerifyTask(InputPartition):
    """The ranges that one task compares."""

    def __init__(self, ranges: tuple[RangeTask, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


class VerifyTasks(DataSource):
    """Option: `plan`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType([StructField("report", BinaryType())])

    def reader(self, schema: StructType) -> DataSourceReader:
        return VerifyReader(unpack(self.options["plan"]))


class VerifyReader(DataSourceReader):
    def __init__(self, plan: _Plan) -> None:
        self._options = plan.options
        self._tasks = plan.tasks

    def partitions(self) -> list[InputPartition]:
        return [VerifyTask(ranges) for ranges in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        assert isinstance(partition, VerifyTask)
        for report in verify_ranges(self._options, partition.ranges):
            yield (encode_report(report),)


def pack(options: ReadOptions, tasks: Sequence[tuple[RangeTask, ...]]) -> str:
    """As an option's value."""
    encoded = msgspec.msgpack.encode(_Plan(options, tuple(tasks)))
    return base64.b64encode(zlib.compress(encoded, 1)).decode("ascii")


def unpack(packed: str) -> _Plan:
    decoder = zlib.decompressobj()
    encoded = decoder.decompress(base64.b64decode(packed), PLAN_BYTES_MAX)
    if not decoder.eof:
        raise ValueError("the option 'plan' is cut off, or too large")
    return msgspec.msgpack.decode(encoded, type=_Plan)


def run_on_spark(
    spark: SparkSession,
    options: ReadOptions,
    tasks: Sequence[tuple[RangeTask, ...]],
    *,
    progress: Callable[[int, int], None],
) -> list[RangeReport]:
    """Carries the tasks out; `progress` is told how many of how many are done. Raises what Spark raises."""
    if not tasks:
        return []
    spark.dataSource.register(VerifyTasks)
    frame = spark.read.format(FORMAT).option("plan", pack(options, tasks)).load()
    rows = _collect(spark, frame, len(tasks), progress)
    return [decode_report(bytes(row[0])) for row in rows]


def _collect(spark: SparkSession, frame: Any, tasks: int, progress: Callable[[int, int], None]) -> list[Any]:
    """The rows, collected beside a look at how far the tasks are."""
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

    thread = Thread(target=collect, name="verify-collect", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PROGRESS_S)
            progress(_done(context), tasks)
    except KeyboardInterrupt:
        context.cancelAllJobs()
        thread.join()
        raise
    if failures:
        raise failures[0]
    return rows


def _done(context: Any) -> int:
    """Tasks that are done of the stages that run. What Spark can't tell in this moment is none."""
    tracker = context.statusTracker()
    done = 0
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        done += 0 if info is None else info.numCompletedTasks
    return done
