"""A batch's tasks on Spark: a data source whose rows are reports, and whose reading writes the files.

It is a data source, not an RDD, because Spark Connect has no RDDs; it is planned from the plan in the table,
so nothing is handed over but where the table is. Rows of the log never reach the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from pipeline.client.config import client_config
from pipeline.client.values import PartitionRange
from pipeline.land.documents import Plan
from pipeline.land.errors import LandError
from pipeline.land.table import Table, table_root
from pipeline.land.task import RangeReport, decode_reports, encode_reports, land_ranges, task_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "springtide-land"
_CLIENT = "kafka."


class LandTask(InputPartition):
    """The ranges that one task lands."""

    def __init__(self, ranges: tuple[PartitionRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


class LandTasks(DataSource):
    """Options: `path` of the table, `batch`, `allowLoss`, `replica`, `kafka.*`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType([StructField("reports", StringType())])

    def reader(self, schema: StructType) -> DataSourceReader:
        return LandReader({name.lower(): value for name, value in self.options.items()})


class LandReader(DataSourceReader):
    """options: by lower-case name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        table = Table(table_root(options["path"]))
        settings, plan = table.settings(), table.plan(int(options["batch"]))
        if settings is None or plan is None:
            raise LandError(
                f"batch {options['batch']} is not planned in {table.root}, as Spark's driver sees it",
                "The table must be on a path that driver and executors share.",
            )
        self._tasks = plan.tasks
        replica = options.get("replica")
        self._settings = task_settings(
            plan,
            settings,
            root=table.root,
            client=client_config(
                {
                    name.removeprefix(_CLIENT): value
                    for name, value in options.items()
                    if name.startswith(_CLIENT)
                }
            ),
            allow_loss=options.get("allowloss") == "true",
            replica_id=None if replica is None else int(replica),
        )

    def partitions(self) -> list[InputPartition]:
        return [LandTask(ranges) for ranges in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        assert isinstance(partition, LandTask)
        try:
            yield (encode_reports(land_ranges(self._settings, partition.ranges)),)
        except LandError as error:
            raise LandError(error.whole) from error


def run_on_spark(
    spark: SparkSession, table: Table, plan: Plan, options: Mapping[str, str]
) -> list[RangeReport]:
    """Carries the plan's tasks out. Raises what Spark raises where one failed for good."""
    if not plan.tasks:
        return []
    spark.dataSource.register(LandTasks)
    rows = (
        spark.read.format(FORMAT)
        .options(**options)
        .option("path", str(table.root))
        .option("batch", str(plan.batch))
        .load()
        .collect()
    )
    return [report for row in rows for report in decode_reports(row[0])]
