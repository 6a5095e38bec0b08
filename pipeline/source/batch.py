"""Batch queries: everything is resolved and planned once, on the driver; tasks only read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from pipeline.client.client import Client
from pipeline.client.values import PartitionRange
from pipeline.source.cluster import SourceCluster
from pipeline.source.errors import HOW_TO_SKIP
from pipeline.source.offsets import raise_losses, ranges_between
from pipeline.source.options import SourceOptions, View
from pipeline.source.planning import plan_tasks
from pipeline.source.positions import Edge
from pipeline.source.pushdown import Bounds, Comparison, bounds_of, narrow, since
from pipeline.source.reading import TaskReading, read_ranges
from pipeline.source.schemas import columns_of

_log = logging.getLogger(__name__)


class ReadTask(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: tuple[PartitionRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"ReadTask({self.ranges!r})"


def task_reading(options: SourceOptions) -> TaskReading:
    return TaskReading(
        options.client,
        options.shape.view,
        columns_of(options.shape),
        options.isolation,
        options.replica_id,
        options.fail_on_data_loss,
    )


class RecordReader(DataSourceReader):
    """The views `records` and `batches` between two positions."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reading = task_reading(options)
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """Raises InvalidOption, DataLossError, or the client's errors."""
        options = self._options
        for warning in options.warnings:
            _log.warning(warning)
        with Client(options.client) as client:
            cluster = SourceCluster(options, client)
            partitions = cluster.partitions(must_exist=True)
            start = cluster.resolve(options.starting, partitions)
            end = cluster.resolve(options.ending, partitions)
            found = ranges_between(start, end)
            if options.fail_on_data_loss:
                raise_losses(found.losses, advice=HOW_TO_SKIP)
            ranges = narrow(found.ranges, self._bounds)
            if self._bounds.timestamp_ms and ranges:
                asked = dict.fromkeys((one.where for one in ranges), self._bounds.timestamp_ms)
                ranges = since(ranges, client.list_offsets(asked))
        # Of no tasks, Spark would make one of its own, with nothing in it that we know.
        return [ReadTask(each) for each in plan_tasks(ranges, options.plan) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadTask)
        return read_ranges(self._reading, partition.ranges)


class FilteredReader(RecordReader):
    """With the option `pushdown`. A class of its own, because Spark refuses every read by a reader that takes
    filters while `spark.sql.python.filterPushdown.enabled` is off, as it is by default."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keeps them in mind, and leaves them all to Spark too."""
        told = (comparison_of(each) for each in filters)
        self._bounds = bounds_of(each for each in told if each is not None)
        return filters


_OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
}


def comparison_of(told: Filter) -> Comparison | None:
    """A filter of Spark's, if it compares a column of ours."""
    operator = _OPERATORS.get(type(told))
    if operator is None:
        return None
    path, value = told.attribute, told.value  # type: ignore[attr-defined]
    if len(path) != 1 or (value is None and isinstance(told, EqualNullSafe)):
        return None
    return Comparison(path[0], operator, value)


class OffsetReader(DataSourceReader):
    """The view `offsets`: one task, one row a partition."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._columns = columns_of(options.shape)

    def partitions(self) -> list[InputPartition]:
        return [ReadTask(())]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        options = self._options
        with Client(options.client) as client:
            cluster = SourceCluster(options, client)
            partitions = cluster.partitions(must_exist=True)
            earliest = cluster.ends(partitions, Edge.EARLIEST)
            latest = cluster.ends(partitions, Edge.LATEST)
            metadata = client.known_metadata()
        for where in partitions:
            known = metadata.partition(where)
            assert known is not None, "its leader was asked"
            row = {
                "topic": where.topic,
                "partition": where.partition,
                "earliest": earliest[where].offset,
                "latest": latest[where].offset,
                "leader": known.leader_id,
                "leader_epoch": known.leader_epoch,
                "replicas": list(known.replicas),
                "isr": list(known.isr),
            }
            yield tuple(row[name] for name in self._columns)


def batch_reader(options: SourceOptions) -> DataSourceReader:
    if options.shape.view is View.OFFSETS:
        return OffsetReader(options)
    return FilteredReader(options) if options.pushdown else RecordReader(options)
