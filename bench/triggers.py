"""How long a micro-batch takes that brings each partition one record, by the number of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from bench.figures import percentile
from bench.spark_side import SparkSide, tell
from pipeline.client.values import TopicPartition
from springtide.wire.records import NewRecord, encode_batch
from tests.pipeline_proof.connector import FORMAT

TRIGGERS = {1: 20, 64: 20, 1000: 10, 10_000: 3}
"""Measured, by the number of partitions. Two more before them do not count."""
TRIGGERS_QUICK = {1: 3, 64: 3}
WARMING = 2
TASK_EACH_MAX = 64
"""A Python task costs some 60 ms: one for each of more partitions than this would only take long."""
OFFICIAL_MAX = 1000
"""Spark's Kafka source makes a consumer for each partition in its first trigger, some 20 ms each."""
OFFICIAL_TRIGGERS_MAX = 5
WRITTEN_TOGETHER = 1000
VALUE = b"v" * 100
SHARED, EACH, FLOOR, OFFICIAL = "shared tasks", "a task each", "as many tasks that do nothing", FORMAT
HEADINGS = "partitions  side                            triggers  p50 ms  p99 ms"
QUERY_SECONDS_MAX = 900


class Line(NamedTuple):
    """Times of whole triggers, as Spark's progress tells them."""

    partitions: int
    side: str
    triggers: int
    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        return (
            f"{self.partitions:10}  {self.side:30}  {self.triggers:8}  {self.p50_ms:6.0f}  {self.p99_ms:6.0f}"
        )


def measure(side: SparkSide, only: str, *, is_quick: bool, has_connector: bool) -> Iterator[Line]:
    """Yield the lines whose number of partitions is `only`, unless it is empty."""
    for count, triggers in (TRIGGERS_QUICK if is_quick else TRIGGERS).items():
        if only not in ("", str(count)):
            continue
        topic = f"trickle-{count}"
        _fill(side, topic, count, triggers + WARMING)
        rate = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(count)}
        frames = {SHARED: side.stream(topic, **rate)}
        if count <= TASK_EACH_MAX:
            frames[EACH] = side.stream(topic, coalesce="false", **rate)
        if has_connector and count <= OFFICIAL_MAX:
            frames[OFFICIAL] = side.stream(topic, format_name=FORMAT, **rate)
        frames[FLOOR] = (
            side.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", count)
            .option("numPartitions", count)
            .load()
        )
        for name, frame in frames.items():
            wanted = min(triggers, OFFICIAL_TRIGGERS_MAX) if name == OFFICIAL else triggers
            times = _trigger_ms(side, frame, f"{count}-{name}", wanted)
            yield Line(count, name, len(times), median(times), percentile(sorted(times), 0.99))


def _fill(side: SparkSide, topic: str, partitions: int, records: int) -> None:
    """Each partition gets so many batches of one record."""
    tell(f"{topic}: {records} records for each of {partitions} partitions")
    side.create_topic(topic, partitions=partitions)
    where = [TopicPartition(topic, number) for number in range(partitions)]
    batch = encode_batch([NewRecord(b"k", VALUE, 1_700_000_000_000)])
    for _ in range(records):
        for first in range(0, partitions, WRITTEN_TOGETHER):
            side.client.produce(dict.fromkeys(where[first : first + WRITTEN_TOGETHER], batch))


def _trigger_ms(side: SparkSide, frame: Any, name: str, triggers: int) -> list[int]:
    """Of the last `triggers` micro-batches that had rows; the query is stopped when it has had as many."""
    checkpoint = side.scratch / "checkpoints" / name.replace(" ", "-")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        for _ in range(QUERY_SECONDS_MAX * 2):
            if query.awaitTermination(0.5):
                raise RuntimeError(f"{name}: {query.exception()}")
            told = [one for one in query.recentProgress if one["numInputRows"]]
            if len(told) >= triggers + WARMING:
                break
        else:
            raise TimeoutError(f"{name}: {len(told)} micro-batches in {QUERY_SECONDS_MAX} s")
    finally:
        query.stop()
    return [one["durationMs"]["triggerExecution"] for one in told[WARMING : WARMING + triggers]]
