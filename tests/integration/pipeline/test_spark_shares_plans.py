"""What Spark does with the plan of a Python source, on which our source's choices rest.

It is why no filter is pushed down (pipeline/source/batch.py): when the test fails with a newer PySpark, they
can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSource, DataSourceReader, GreaterThanOrEqual, InputPartition

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
ROWS = 10


class CountingReader(DataSourceReader):
    """Numbers below ROWS, from the one on that a filter names. Spark applies the filter once more."""

    def __init__(self) -> None:
        self.first = 0

    def pushFilters(self, filters: Any) -> Iterator[Any]:
        for each in filters:
            if isinstance(each, GreaterThanOrEqual):
                self.first = each.value
            yield each

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.first)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in range(partition.value, ROWS):
            yield (number,)


class CountingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "number int"

    def reader(self, schema: Any) -> DataSourceReader:
        return CountingReader()


def test_filters_that_are_pushed_down_are_those_of_other_queries_too(spark: Any) -> None:
    spark.dataSource.register(CountingSource)
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = spark.read.format("counting").load()
        assert frame.count() == ROWS
        late = frame.where("number >= 8")
        assert late.count() == 2
        assert frame.count() == 2, "the whole frame is read whole now: push filters down"
        assert frame.where("number < 5").union(late).count() == 2, "each side has its own plan now"
    finally:
        spark.conf.set(PUSHDOWN, before)
