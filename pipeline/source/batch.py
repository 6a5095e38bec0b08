"""Batch queries: everything is resolved and planned once, on the driver; tasks only read.

Filters are not pushed down: Spark 4.3 keeps what a Python reader planned with one query's filters for other
queries of the same DataFrame, so after `frame.where(...)`, `frame` itself read the filtered part only, and of
a union of two filters both sides read what the second one's plan has. Nothing in Python is called then, so a
reader can't notice (tests/integration/pipeline/test_spark_shares_plans.py). Spark tells it no columns either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pipeline.client.client import Client
from pipeline.client.values import PartitionRange
from pipeline.source.cluster import SourceCluster
from pipeline.source.offsets import check_order, ranges_between
from pipeline.source.options import SourceOptions, SourceView, TaskReading
from pipeline.source.planning import plan_tasks
from pipeline.source.positions import LogEnd
from pipeline.source.schemas import columns_of
from pipeline.worker_process import calm_the_collector

_log = logging.getLogger(__name__)


class ReadTask(InputPartition):
    """The ranges that one task reads, and the ids of their topics, by name, where they are known."""

    def __init__(
        self, ranges: tuple[PartitionRange, ...], topic_ids: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.topic_ids = {one.topic: topic_ids[one.topic] for one in ranges if one.topic in topic_ids}


class TaskReader:
    """What Spark pickles for the tasks of a query of the views `records` and `batches`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reading = TaskReading(
            options.client,
            options.shape.view,
            columns_of(options.shape),
            options.isolation,
            options.replica_id,
            options.fail_on_data_loss,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pipeline.source.reading import read_ranges  # noqa: PLC0415 - the driver, which plans, decodes nothing

        assert isinstance(partition, ReadTask)
        calm_the_collector()
        return read_ranges(self._reading, partition.ranges, partition.topic_ids)


class RecordReader(TaskReader, DataSourceReader):
    """The views `records` and `batches` between two positions."""

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks. Raises InvalidOption, DataLossError, or the client's errors."""
        options = self._options
        for warning in options.warnings:
            _log.warning("option_ignored detail=%s", warning)
        with Client(options.client) as client:
            start, end, topic_ids = SourceCluster(options, client).span()
        check_order(start, end)
        ranges = ranges_between(start, end).ranges  # nothing is lost between two positions of one moment
        # For no tasks, Spark would make one of its own, which is no ReadTask.
        return [ReadTask(each, topic_ids) for each in plan_tasks(ranges, options.plan) or [()]]


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
            earliest = cluster.ends(partitions, LogEnd.EARLIEST)
            latest = cluster.ends(partitions, LogEnd.LATEST)
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
    return OffsetReader(options) if options.shape.view is SourceView.OFFSETS else RecordReader(options)
