"""Another cluster's topic as a source: which offsets there are, and their rows.

The range is fixed when the replay is planned: records that come to the source later are not replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa

from pipeline.client.client import READ_COMMITTED, Client
from pipeline.client.config import ClientConfig
from pipeline.client.values import EARLIEST, LATEST, PartitionRange
from pipeline.errors import DataLossError, InvalidRows, ReplayError
from pipeline.replay.lake import Found
from pipeline.replay.plan import NO_TIME, ReplayRange, ReplaySettings
from pipeline.replay.rows import sink_rows
from pipeline.sink.target import known_partitions
from pipeline.source.options import Isolation, SourceView, TaskReading
from pipeline.source.reading import DamagedRecords, read_ranges

SCHEME = "kafka"
COLUMNS = ("key", "value", "partition", "timestamp", "headers")


class Log(NamedTuple):
    """A topic of a cluster."""

    client: ClientConfig
    topic: str


def is_log(source: str) -> bool:
    return source.startswith(f"{SCHEME}://")


def parse_log(source: str, client_of: Callable[[str], ClientConfig]) -> Log:
    """`kafka://host:9092,host2:9092/topic`. client_of: takes the addresses. Raises ReplayError,
    InvalidClientOption, and what `client_of` raises."""
    parts = urlsplit(source)
    topic = parts.path.removeprefix("/")
    if not parts.netloc or not topic or "/" in topic or parts.query or parts.fragment:
        raise ReplayError(
            f"{source!r} names no topic of a cluster", "Write kafka://HOST:PORT,HOST:PORT/TOPIC."
        )
    return Log(client_of(parts.netloc), topic)


def cluster_id(client: Client) -> str:
    """Return the cluster's id; "" if brokers give none."""
    return client.metadata([]).cluster_id or ""


def find_log(client: Client, topic: str, *, from_ms: int = NO_TIME) -> Found:
    """Return what is committed of a topic now, up to its first open transaction: a stream for each partition.
    from_ms: begin at the first record that is as late. Raises ReplayError, ClientError."""
    try:
        partitions = known_partitions(client, topic)
    except InvalidRows as error:
        raise ReplayError(str(error).replace("written to", "read")) from error
    begin = EARLIEST if from_ms == NO_TIME else from_ms
    starts = client.list_offsets(dict.fromkeys(partitions, begin))
    ends = client.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=READ_COMMITTED)
    streams = tuple(
        (ReplayRange(*where, starts[where].offset, ends[where].offset),)
        for where in partitions
        if 0 <= starts[where].offset < ends[where].offset
    )
    return Found(streams, has_partitions=True, partition_max=len(partitions) - 1, files=0, bytes=0)


def log_rows(
    log: Log, pieces: Sequence[ReplayRange], settings: ReplaySettings, *, now_ms: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the pieces in their order, as the sink takes them. Raises ReplayError,
    ClientError."""
    reading = TaskReading(log.client, SourceView.RECORDS, COLUMNS, Isolation.READ_COMMITTED)
    try:
        ids = {log.topic: settings.source_topic_id} if settings.source_topic_id else {}
        for rows in read_ranges(reading, _as_ranges(pieces), ids):
            chosen = sink_rows(rows, settings, now_ms=now_ms)
            if chosen.num_rows:
                yield chosen
    except DataLossError as error:
        raise ReplayError(
            f"{log.topic}: records are gone since the replay was planned: {error.__cause__ or error}",
            "Retention took them before they were copied, or the topic was deleted. Begin again, with "
            "another --checkpoint, and raise the source's retention for as long as the replay takes.",
        ) from error
    except DamagedRecords as error:
        raise ReplayError(str(error), "`pipeline verify` names the damaged replicas.") from error


def _as_ranges(pieces: Sequence[ReplayRange]) -> list[PartitionRange]:
    """Return ranges in which adjacent pieces are joined: a reader takes each partition once."""
    ranges: list[PartitionRange] = []
    for piece in pieces:
        if ranges and ranges[-1].where == piece.range.where and ranges[-1].end_offset == piece.start_offset:
            ranges[-1] = ranges[-1]._replace(end_offset=piece.end_offset)
        else:
            ranges.append(piece.range)
    return ranges
