"""A task: fetches its ranges and yields Arrow record batches. Runs in executors, without Spark.

A task's rows come in the same order in every run, its ranges in their planned order: the sink needs that to
store each row once. Small record batches are joined: each one costs the channel to the JVM as much as a
thousand rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.connection import now_ms
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import ClusterMetadata, FetchedRecords, PartitionRange, TopicPartition
from pipeline.errors import HOW_TO_SKIP, DataLossError
from pipeline.records.decode import decode_records
from pipeline.records.headers import DamagedBatch, header_rows, scan_headers
from pipeline.records.small_pieces import Piece, decode_together
from pipeline.source.options import Isolation, SourceView, TaskReading

JOINED_BYTES = 1024 * 1024
"""Record batches below this are joined with the next."""
SMALL_BYTES = 16 * 1024
"""Fetched records of a partition up to this size are decoded together with the next ones."""
TOGETHER_BYTES, TOGETHER_MAX = 512 * 1024, 1_000
"""The most bytes, and the most partitions, that are decoded together."""
LEARNT_MS_MAX = 5 * 60 * 1000
"""Age at which metadata is asked for again: the default of Kafka's metadata.max.age.ms."""
CLUSTERS_MAX = 16
_log = logging.getLogger(__name__)


class DamagedRecords(Exception):
    """A broker sent a record batch that is damaged. Nothing of it was yielded."""


class _Learnt(NamedTuple):
    """The leaders that a task found, and the time when it began to ask (ms, of the monotonic clock)."""

    metadata: ClusterMetadata
    learnt_ms: int


_learnt: dict[ClientConfig, _Learnt] = {}
"""Kept by the process: Spark keeps its workers, and Metadata of a topic with thousands of partitions costs a
task more than a few records."""


def read_ranges(
    reading: TaskReading,
    ranges: Sequence[PartitionRange],
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's ranges, of the topics with these ids. Raises DataLossError, DamagedRecords,
    or the client's errors."""
    yield from joined(_read(reading, ranges, topic_ids))


def _read(
    reading: TaskReading, ranges: Sequence[PartitionRange], topic_ids: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    bounds = {one.where: one for one in ranges}
    with (
        _client_that_knows(reading) as client,
        client.fetch(
            ranges,
            isolation_level=reading.isolation.value,
            replica_id=reading.replica_id,
            skip_gone=not reading.fail_on_data_loss,
            in_order=True,
            topic_ids=topic_ids,
        ) as stream,
    ):
        try:
            for some in _small_together(reading, stream):
                yield from _rows_of(reading, some, bounds)
        except OffsetsGone as error:
            raise DataLossError(f"{error}. {HOW_TO_SKIP}") from error
        for where, count in stream.skipped.items():
            _log.warning(
                "offsets_skipped partition=%s offsets=%d hint=%s", where, count, "failOnDataLoss is false"
            )


@contextmanager
def _client_that_knows(reading: TaskReading) -> Iterator[Client]:
    """Open a client with the last one's metadata, and keep its own unless the block raises."""
    learnt = _learnt.pop(reading.client, None)
    # A named replica must be in sync now; a former leader says that it does not lead.
    if learnt is None or reading.replica_id is not None or now_ms() - learnt.learnt_ms > LEARNT_MS_MAX:
        learnt = _Learnt(ClusterMetadata(), now_ms())
    with Client(reading.client, known=learnt.metadata) as client:
        yield client
    if len(_learnt) >= CLUSTERS_MAX:
        del _learnt[next(iter(_learnt))]
    _learnt[reading.client] = _Learnt(client.known_metadata(), learnt.learnt_ms)


def _small_together(
    reading: TaskReading, stream: Iterator[FetchedRecords]
) -> Iterator[Sequence[FetchedRecords]]:
    """Yield the same in the same order; small ones by the hundreds."""
    held: list[FetchedRecords] = []
    held_bytes = 0
    for fetched in stream:
        size = len(fetched.records)
        if size > SMALL_BYTES or reading.view is not SourceView.RECORDS:
            if held:
                yield held
                held, held_bytes = [], 0
            yield (fetched,)
            continue
        # A copy, so that the whole answer need not wait for what is held of it.
        held.append(fetched._replace(records=memoryview(bytes(fetched.records))))
        held_bytes += size
        if held_bytes >= TOGETHER_BYTES or len(held) >= TOGETHER_MAX:
            yield held
            held, held_bytes = [], 0
    if held:
        yield held


def _rows_of(
    reading: TaskReading, some: Sequence[FetchedRecords], bounds: Mapping[TopicPartition, PartitionRange]
) -> Iterator[pa.RecordBatch]:
    is_committed_only = reading.isolation is Isolation.READ_COMMITTED
    if len(some) > 1 and not (is_committed_only and any(fetched.aborted for fetched in some)):
        pieces = [
            Piece(*fetched.where, fetched.records, fetched.start_offset, bounds[fetched.where].end_offset)
            for fetched in some
        ]
        rows = decode_together(pieces, columns=reading.columns)
        if rows is not None:
            if rows.num_rows:
                yield rows
            return
    for fetched in some:
        yield from _rows(reading, fetched, bounds[fetched.where])


def _rows(reading: TaskReading, fetched: FetchedRecords, bounds: PartitionRange) -> Iterator[pa.RecordBatch]:
    if not len(fetched.records):
        return
    topic, partition = fetched.where
    try:
        if reading.view is SourceView.BATCHES:
            yield from _header_rows(reading, fetched, bounds)
            return
        yield from decode_records(
            fetched.records,
            topic=topic,
            partition=partition,
            columns=reading.columns,
            first_offset=fetched.start_offset,
            end_offset=bounds.end_offset,
            aborted=fetched.aborted if reading.isolation is Isolation.READ_COMMITTED else (),
        )
    except DamagedBatch as error:
        raise DamagedRecords(
            f"{fetched.where}, fetched from offset {fetched.start_offset}: {error}"
        ) from error


def _header_rows(
    reading: TaskReading, fetched: FetchedRecords, bounds: PartitionRange
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that begin within the range, so each is in one task's rows only."""
    headers = scan_headers(fetched.records)
    rows = header_rows(
        fetched.records, headers, topic=bounds.topic, partition=bounds.partition, raw="raw" in reading.columns
    )
    begins = pc.greater_equal(rows["base_offset"], pa.scalar(bounds.start_offset, pa.int64()))
    rows = rows.filter(begins).select(list(reading.columns))
    if rows.num_rows:
        yield rows


def joined(batches: Iterator[pa.RecordBatch], *, bytes_min: int = JOINED_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in record batches of at least `bytes_min`, except for the last."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if not held and batch.nbytes >= bytes_min:
            yield batch
            continue
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= bytes_min:
            yield _as_one(held)
            held, held_bytes = [], 0
    if held:
        yield _as_one(held)


def _as_one(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(held) == 1:
        return held[0]
    (one,) = pa.Table.from_batches(held).combine_chunks().to_batches()
    return one
