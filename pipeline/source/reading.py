"""What a task does: fetches its ranges and yields Arrow record batches. Runs in executors, without Spark.

A task's rows come in the same order whenever it is run: its ranges one after another, as they were planned.
The sink counts on that to store each row once, and a keyless row's place decides its partition. Small record
batches are joined, because each one costs the channel to the JVM as much as a thousand rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.connection import now_ms
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import ClusterMetadata, FetchedRecords, PartitionRange, TopicPartition
from pipeline.records.decode import decode_records
from pipeline.records.headers import DamagedBatch, header_rows, scan_headers
from pipeline.records.together import Piece, decode_together
from pipeline.source.errors import HOW_TO_SKIP, DataLossError
from pipeline.source.options import Isolation, View

JOINED_BYTES = 1024 * 1024
"""Record batches below this are joined with the next."""
SMALL_BYTES = 16 * 1024
"""What a fetch brought of a partition is decoded together with the next ones' if it is no more than this."""
TOGETHER_BYTES, TOGETHER_MAX = 512 * 1024, 1_000
"""Until so many bytes, or so many of them, are there."""
LEARNT_MS_MAX = 5 * 60 * 1000
"""As Kafka's metadata.max.age.ms."""
CLUSTERS_MAX = 16
_log = logging.getLogger(__name__)


class DamagedLog(Exception):
    """A broker gave a record batch that is none, or whose CRC does not match. Nothing of it was yielded."""


class TaskReading(NamedTuple):
    """How to read, the same for every task of a query. Pickles, and needs no Spark."""

    client: ClientConfig
    view: View
    columns: tuple[str, ...]
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    replica_id: int | None = None
    fail_on_data_loss: bool = True


class _Learnt(NamedTuple):
    """Where a task found leaders, and when (ms, of the monotonic clock)."""

    metadata: ClusterMetadata
    learnt_ms: int


_learnt: dict[ClientConfig, _Learnt] = {}
"""Of this process: Spark keeps its workers, and Metadata of a topic with thousands of partitions costs a task
more than their few records do."""


def read_ranges(reading: TaskReading, ranges: Sequence[PartitionRange]) -> Iterator[pa.RecordBatch]:
    """The rows of a task's ranges. Raises DataLossError, DamagedLog, or the client's errors."""
    yield from joined(_read(reading, ranges))


def _read(reading: TaskReading, ranges: Sequence[PartitionRange]) -> Iterator[pa.RecordBatch]:
    bounds = {one.where: one for one in ranges}
    with (
        _client_that_knows(reading) as client,
        client.fetch(
            ranges,
            isolation_level=reading.isolation.value,
            replica_id=reading.replica_id,
            skip_gone=not reading.fail_on_data_loss,
            in_order=True,
        ) as stream,
    ):
        try:
            for some in _small_together(reading, stream):
                yield from _rows_of(reading, some, bounds)
        except OffsetsGone as error:
            raise DataLossError(f"{error}. {HOW_TO_SKIP}") from error
        for where, count in stream.skipped.items():
            _log.warning("%s: %d offsets were skipped, failOnDataLoss is false", where, count)


@contextmanager
def _client_that_knows(reading: TaskReading) -> Iterator[Client]:
    """What it has learnt is kept for the next one unless the block ends with an exception."""
    learnt = _learnt.pop(reading.client, None)
    # A replica that was named must be in sync now; who led a while ago says so if he doesn't any more.
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
    """The same in the same order; small ones by the hundreds."""
    held: list[FetchedRecords] = []
    held_bytes = 0
    for fetched in stream:
        size = len(fetched.records)
        if size > SMALL_BYTES or reading.view is not View.RECORDS:
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
        if reading.view is View.BATCHES:
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
        raise DamagedLog(f"{fetched.where}, fetched from offset {fetched.start_offset}: {error}") from error


def _header_rows(
    reading: TaskReading, fetched: FetchedRecords, bounds: PartitionRange
) -> Iterator[pa.RecordBatch]:
    """Batches that begin within the range: each is in one task's rows, however ranges are cut."""
    headers = scan_headers(fetched.records)
    rows = header_rows(
        fetched.records, headers, topic=bounds.topic, partition=bounds.partition, raw="raw" in reading.columns
    )
    begins = pc.greater_equal(rows["base_offset"], pa.scalar(bounds.start_offset, pa.int64()))
    rows = rows.filter(begins).select(list(reading.columns))
    if rows.num_rows:
        yield rows


def joined(batches: Iterator[pa.RecordBatch], *, bytes_min: int = JOINED_BYTES) -> Iterator[pa.RecordBatch]:
    """The same rows in record batches of at least `bytes_min`, but for the last."""
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
