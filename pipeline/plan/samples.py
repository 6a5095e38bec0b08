"""Rows of load history: raw values of one moment. Pure; pyarrow.

Counters and offsets are kept as they are, not as rates: only a reader of two samples can tell what happened
between them, such as a restart, a new leader, retention or a gap.

HISTORY/partitions/date=2026-11-22/<first ms>-<last ms>-<8 hex digits>.parquet   PARTITIONS
HISTORY/topics/date=.../...                                                      TOPICS
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families

from pipeline.plan.documents import PartitionItem

MOMENT: Final = pa.timestamp("ms", tz="UTC")
PARTITIONS: Final = pa.schema(
    [
        pa.field("sampled_at", MOMENT, nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("topic_id", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("replicas", pa.list_(pa.int32()), nullable=False),
        pa.field("log_start_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("lag_records_max", pa.int64()),
        pa.field("lag_ms_max", pa.int64()),
    ]
)
"""A row for each partition. Offsets, size and lags (of the slowest follower) are null if the leader has not
reported them."""
TOPICS: Final = pa.schema(
    [
        pa.field("sampled_at", MOMENT, nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("bytes_in", pa.int64(), nullable=False),
        pa.field("bytes_out", pa.int64(), nullable=False),
    ]
)
"""A row for each broker and topic: its counters since the broker started."""
FAMILIES: Final = {
    "kafka_server_brokertopicmetrics_bytesin_total": "bytes_in",
    "kafka_server_brokertopicmetrics_bytesout_total": "bytes_out",
}
_INT64_MAX: Final = 2**63 - 1


class TopicCounters(NamedTuple):
    """A broker's counters of one topic, since the broker started."""

    topic: str
    bytes_in: int
    bytes_out: int


class BadMetrics(ValueError):
    """The page is no metrics page of a broker."""


def parse_metrics(page: str) -> list[TopicCounters]:
    """Return the counters by topic name. Raises BadMetrics."""
    found: dict[str, dict[str, int]] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                name = FAMILIES.get(sample.name)
                if name is not None:
                    value = int(sample.value)
                    if not 0 <= value <= _INT64_MAX:
                        raise BadMetrics(f"{sample.name} is {sample.value}")
                    found.setdefault(sample.labels["topic"], {})[name] = value
    except (ValueError, KeyError, OverflowError) as error:
        raise BadMetrics(f"no metrics of a broker: {error}") from error
    return [
        TopicCounters(topic, counters.get("bytes_in", 0), counters.get("bytes_out", 0))
        for topic, counters in sorted(found.items())
    ]


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)


def partition_rows(cluster: str, sampled_at_ms: int, items: Iterable[PartitionItem]) -> pa.RecordBatch:
    at = moment(sampled_at_ms)
    rows: list[dict[str, Any]] = []
    for item in items:
        heard = [one for one in item.followers if one.lag_records >= 0]
        rows.append(
            {
                "sampled_at": at,
                "cluster": cluster,
                "topic": item.topic,
                "topic_id": item.topic_id,
                "partition": item.partition,
                "leader": item.leader,
                "leader_epoch": item.leader_epoch,
                "replicas": item.replicas,
                "log_start_offset": item.log_start_offset,
                "log_end_offset": item.log_end_offset,
                "size_bytes": item.size_bytes,
                "lag_records_max": max((one.lag_records for one in heard), default=None),
                "lag_ms_max": max((one.lag_ms for one in heard), default=None),
            }
        )
    return pa.RecordBatch.from_pylist(rows, schema=PARTITIONS)


def topic_rows(
    cluster: str, sampled_at_ms: int, counters: Mapping[int, Sequence[TopicCounters]]
) -> pa.RecordBatch:
    """Return the rows of topics' counters. counters: by broker."""
    at = moment(sampled_at_ms)
    rows = [
        {"sampled_at": at, "cluster": cluster, "broker_id": broker_id, **one._asdict()}
        for broker_id, told in sorted(counters.items())
        for one in told
    ]
    return pa.RecordBatch.from_pylist(rows, schema=TOPICS)


def file_name(table: str, first_ms: int, last_ms: int, unique: str) -> str:
    """Return a file's path in the history. Its folder is the day of the first sample."""
    return f"{table}/date={moment(first_ms):%Y-%m-%d}/{first_ms}-{last_ms}-{unique}.parquet"
