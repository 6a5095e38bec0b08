"""Reading to Spark's `noop` sink and writing from rows that the JVM makes: rates, and processor time by
role."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench.spark_side import NOW_MS, SLOTS, SparkSide, Spent, make_rows, per_gb, tell
from pipeline.client.values import TopicPartition
from pipeline.records.encode import BatchOptions, PartitionEncoder
from springtide.wire.compression import Compression
from tests.pipeline_proof.connector import FORMAT

PARTITIONS = 8
BATCH_BYTES = 16 * 1024
"""As producers with Kafka's defaults send them."""
ZSTD_LEVEL = 1
SMALL_BYTES, LARGE_BYTES = 100, 1000
CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD)
READ_BYTES = {SMALL_BYTES: 200_000_000, LARGE_BYTES: 400_000_000}
WRITE_BYTES = {SMALL_BYTES: 60_000_000, LARGE_BYTES: 300_000_000}
LENGTHS = {1: 9, 5: 5, 30: 3, 120: 1}
"""Seconds that a write takes, more or less, and in how many rounds."""
ROWS_A_SECOND = 600_000
"""Of 100 bytes, on two cores."""
QUICK = 10
"""So much less of everything under --quick."""
ROUNDS, ROUNDS_QUICK = 7, 1
"""Several, for in the first ones the JVM spends a third of the processor time on compiling."""

OURS, OFFICIAL, AT_LEAST_ONCE = "springtide", FORMAT, "at least once"
TUNED = "kafka, tuned"
TUNING = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.wait.ms": "1",
}
"""By default it asks for the log's beginning and end with every 500 records, and at a partition's end waits
half a second for an answer that it does not want."""
WRITE_TUNING = {"kafka.batch.size": "1000000", "kafka.linger.ms": "20"}
"""By default it sends what 16 KiB hold."""
STREAM, OFFICIAL_STREAM, TUNED_STREAM = (f"{side}, stream" for side in (OURS, OFFICIAL, TUNED))
_HEADINGS = (
    "side                   Mrec/s    MB/s  CPU s/GB: executor (JVM + Python)  brokers  times ours: wall  CPU"
)
READ_HEADINGS = f"record  codec  tasks  {_HEADINGS}"
WRITE_HEADINGS = f"record  {_HEADINGS}"
LENGTH_HEADINGS = f"   job  {WRITE_HEADINGS}"

Run = Callable[[], float | None]
"""What is measured; returns the seconds that count, unless they are all that it took."""
Round = Callable[[], AbstractContextManager[Run]]
"""Makes a run ready, and tidies up after it."""


class Line(NamedTuple):
    """Medians of one side. ratio: its time by the clock over ours; cpu_ratio: that of processors, of all.
    codec, tasks: of a reading."""

    record_bytes: int
    side: str
    records: int
    payload_bytes: int
    wall_s: float
    jvm_s: float
    workers_s: float
    brokers_s: float
    ratio: float
    cpu_ratio: float
    codec: str = ""
    tasks: int = 0

    @property
    def rate(self) -> float:
        """Million records a second."""
        return self.records / self.wall_s / 1e6

    @property
    def spark_s_per_gb(self) -> float:
        return per_gb(self.jvm_s + self.workers_s, self.payload_bytes)

    def __str__(self) -> str:
        read = f"{self.codec:5}  {self.tasks:5}  " if self.codec else ""
        size = self.payload_bytes
        jvm, workers, brokers = (per_gb(each, size) for each in (self.jvm_s, self.workers_s, self.brokers_s))
        return (
            f"{self.record_bytes:5} B  {read}{self.side:21}  {self.rate:6.3f}  "
            f"{size / self.wall_s / 1e6:6.0f}  {jvm + workers:18.2f} ({jvm:.2f} + {workers:.2f})  "
            f"{brokers:11.2f}  {self.ratio:16.2f}  {self.cpu_ratio:3.2f}"
        )


# --- reading ----------------------------------------------------------------------------------------------


def read(side: SparkSide, only: str, *, is_quick: bool, has_connector: bool) -> Iterator[Line]:
    """Yield the lines whose names, the bytes of a record and the codec, begin with `only`."""
    rounds = ROUNDS_QUICK if is_quick else ROUNDS
    for record_bytes, payload_bytes in READ_BYTES.items():
        for codec in CODECS:
            name = codec.name.lower()
            if not f"{record_bytes} {name}".startswith(only):
                continue
            topic = f"read-{record_bytes}-{name}"
            wanted = payload_bytes // QUICK if is_quick else payload_bytes
            records, payload = _fill(side, topic, record_bytes, codec, wanted)
            for tasks in range(1, SLOTS + 1):
                runs = {OURS: _reading(side, topic, tasks, records)}
                if has_connector and tasks == SLOTS:  # it always has a task for each partition
                    runs[OFFICIAL] = _reading_officially(side, topic)
                    runs[TUNED] = _reading_officially(side, topic, **TUNING)
                for which, spent, ratio, cpu in _compare(side, runs, rounds):
                    yield Line(record_bytes, which, records, payload, *spent, ratio, cpu, name, tasks)
            if codec is Compression.NONE:
                runs = {STREAM: _streaming(side, topic, records, coalesce="false")}
                if has_connector:
                    runs[OFFICIAL_STREAM] = _streaming(side, topic, records, format_name=FORMAT)
                    runs[TUNED_STREAM] = _streaming(side, topic, records, format_name=FORMAT, **TUNING)
                for which, spent, ratio, cpu in _compare(side, runs, rounds):
                    yield Line(record_bytes, which, records, payload, *spent, ratio, cpu, name, SLOTS)


def _fill(
    side: SparkSide, topic: str, record_bytes: int, codec: Compression, wanted_bytes: int
) -> tuple[int, int]:
    """(records, bytes of their values) that are in the topic now; the same rows in each partition."""
    tell(f"writing {wanted_bytes / 1e6:.0f} MB to {topic}")
    side.create_topic(topic, partitions=PARTITIONS)
    rows = make_rows(record_bytes, total_bytes=wanted_bytes // PARTITIONS)
    options = BatchOptions(
        codec, ZSTD_LEVEL if codec is Compression.ZSTD else None, batch_bytes_max=BATCH_BYTES
    )
    encoder = PartitionEncoder(options=options, timestamp_ms=NOW_MS)
    for batch in [*encoder.add(rows), *encoder.finish()]:
        side.client.produce({TopicPartition(topic, number): batch.data for number in range(PARTITIONS)})
    return rows.num_rows * PARTITIONS, rows.column("value").nbytes * PARTITIONS


def _reading(side: SparkSide, topic: str, tasks: int, records: int) -> Round:
    # One task: everything packed together. More: one for each partition, so that no slot idles at the end.
    options = {"coalesceRecords": str(records)} if tasks == 1 else {"coalesce": "false"}
    planned = side.reader(
        topic, **options
    ).rdd.getNumPartitions()  # not in `run`: Spark plans once more for it
    assert planned == (1 if tasks == 1 else PARTITIONS)

    def run() -> None:
        frame = side.reader(topic, **options)
        frame.write.format("noop").mode("overwrite").save()

    return lambda: nullcontext(run)


def _reading_officially(side: SparkSide, topic: str, **options: str) -> Round:
    def run() -> None:
        frame = side.reader(topic, format_name=FORMAT, **options)
        frame.write.format("noop").mode("overwrite").save()

    return lambda: nullcontext(run)


def _streaming(
    side: SparkSide, topic: str, records: int, *, format_name: str = OURS, **options: str
) -> Round:
    """Return what reads the whole topic as a stream, in two micro-batches as a rate limit would have it. Only
    their time counts: a stream starts once. Processor time is that of the start, too."""
    half = records // 2 + PARTITIONS  # each partition's share is rounded down
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(half)}

    def run() -> float:
        with TemporaryDirectory(dir=side.scratch) as checkpoint:
            writer = side.stream(topic, format_name=format_name, **options).writeStream.format("noop")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            batches = [progress for progress in query.recentProgress if progress.numInputRows]
            assert sum(batch.numInputRows for batch in batches) == records
            return float(sum(batch.durationMs["triggerExecution"] for batch in batches)) / 1000

    return lambda: nullcontext(run)


# --- writing ----------------------------------------------------------------------------------------------


def write(side: SparkSide, only: str, *, is_quick: bool, has_connector: bool) -> Iterator[Line]:
    """Yield the lines whose bytes of a record are `only`, unless it is empty."""
    rounds = ROUNDS_QUICK if is_quick else ROUNDS
    for record_bytes, payload_bytes in WRITE_BYTES.items():
        if only not in ("", str(record_bytes)):
            continue
        records = (payload_bytes // QUICK if is_quick else payload_bytes) // record_bytes
        frame = _made_rows(side, record_bytes, records)
        runs = {
            OURS: _writing(side, frame, f"write-{record_bytes}", records, delivery="exactly-once"),
            AT_LEAST_ONCE: _writing(side, frame, f"plain-{record_bytes}", records, delivery="at-least-once"),
        }
        if has_connector:
            runs[OFFICIAL] = _writing(side, frame, f"official-{record_bytes}", records, format_name=FORMAT)
            runs[TUNED] = _writing(
                side, frame, f"tuned-{record_bytes}", records, format_name=FORMAT, **WRITE_TUNING
            )
        for which, spent, ratio, cpu in _compare(side, runs, rounds):
            yield Line(record_bytes, which, records, records * record_bytes, *spent, ratio, cpu)


def lengths(side: SparkSide, only: str, *, is_quick: bool, has_connector: bool) -> Iterator[Line]:
    """Yield what writes of some lengths take, of those alone whose seconds are `only` unless it is empty: in
    each there is a part that does not grow with the rows."""
    for seconds, rounds in LENGTHS.items():
        if only not in ("", str(seconds)):
            continue
        records = ROWS_A_SECOND * seconds // (QUICK if is_quick else 1)
        frame = _made_rows(side, SMALL_BYTES, records)
        runs = {OURS: _writing(side, frame, f"long-{seconds}", records, delivery="exactly-once")}
        if has_connector:
            runs[TUNED] = _writing(
                side, frame, f"tuned-{seconds}", records, format_name=FORMAT, **WRITE_TUNING
            )
        for which, spent, ratio, cpu in _compare(side, runs, 1 if is_quick else rounds):
            yield Line(SMALL_BYTES, which, records, records * SMALL_BYTES, *spent, ratio, cpu)


def _made_rows(side: SparkSide, record_bytes: int, records: int) -> Any:
    """Keys and values that the JVM makes as it goes: text of which a codec would make a little."""
    text = f"substr(repeat(md5(cast(id as string)), {record_bytes // 32 + 1}), 1, {record_bytes})"
    return side.spark.range(0, records, 1, SLOTS).selectExpr("cast(id as string) as key", f"{text} as value")


def _writing(
    side: SparkSide, frame: Any, name: str, records: int, *, format_name: str = OURS, **options: str
) -> Round:
    """Return what writes all rows to a topic: a new one each time, deleted afterwards. What stays in the page
    cache makes later writes cost more."""
    numbers = itertools.count()

    @contextmanager
    def prepared() -> Iterator[Run]:
        topic = f"{name}-{next(numbers)}"
        side.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        writer = (
            frame.write.format(format_name).mode("append").option("kafka.bootstrap.servers", side.servers)
        )
        yield writer.option("topic", topic).options(**options).save
        assert sum(side.ends(topic, PARTITIONS).values()) >= records
        side.cluster.delete_topic(topic)

    return prepared


# --- both -------------------------------------------------------------------------------------------------


class _Compared(NamedTuple):
    """Medians of a side, and their ratios to the first one's."""

    which: str
    spent: Spent
    ratio: float
    cpu_ratio: float


def _compare(side: SparkSide, runs: dict[str, Round], rounds: int) -> Iterator[_Compared]:
    """Yield what each side spent: they take turns, after a round that does not count."""
    spent: dict[str, list[Spent]] = {which: [] for which in runs}
    for number in range(rounds + 1):
        for which, prepared in runs.items():
            with prepared() as run:
                before = side.spent()
                seconds = run()
                if number:
                    since = side.spent().since(before)
                    spent[which].append(since if seconds is None else since._replace(wall_s=seconds))
    medians = {which: Spent(*map(median, zip(*each, strict=True))) for which, each in spent.items()}
    first = next(iter(medians.values()))
    for which, one in medians.items():
        yield _Compared(which, one, one.wall_s / first.wall_s, one.cpu_s / first.cpu_s)
