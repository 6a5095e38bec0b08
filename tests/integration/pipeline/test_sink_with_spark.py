"""Spark writes `format("springtide")` to brokers that are processes; the client reads what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import EARLIEST, LATEST, PartitionRange, TopicPartition
from pipeline.records.decode import decode_records
from tests.pipeline_proof.part import proving

pytestmark = [pytest.mark.timeout(300)]
PARTITIONS = 3


class Target:
    """A topic that is written to."""

    def __init__(self, cluster: LocalCluster, client: Client, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}

    def values(self) -> dict[int, list[int]]:
        """The numbers in it, by partition, in the order of the log."""
        where = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        starts = self.client.list_offsets(dict.fromkeys(where, EARLIEST))
        ends = self.client.list_offsets(dict.fromkeys(where, LATEST))
        found: dict[int, list[int]] = {}
        ranges = [
            PartitionRange(*each, starts[each].offset, ends[each].offset)
            for each in where
            if starts[each].offset < ends[each].offset
        ]
        with self.client.fetch(ranges) as stream:
            for fetched in stream:
                rows = decode_records(
                    fetched.records, topic=self.topic, partition=fetched.where.partition, columns=["value"]
                )
                found.setdefault(fetched.where.partition, []).extend(
                    int(value) for batch in rows for value in batch.column("value").to_pylist()
                )
        return found

    def all(self) -> list[int]:
        return sorted(number for numbers in self.values().values() for number in numbers)


@pytest.fixture
def target(running_cluster: LocalCluster, client: Client, make_topic: Callable[..., str]) -> Target:
    return Target(running_cluster, client, make_topic("sink", partitions=PARTITIONS))


def numbers(spark: Any, count: int, *, tasks: int) -> Any:
    return spark.range(0, count, 1, tasks).selectExpr(
        "cast(id as string) as key", "cast(id as string) as value"
    )


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_batch_write_stores_every_row_once_and_keys_keep_their_partition(
    spark: Any, target: Target, delivery: str
) -> None:
    frame = numbers(spark, 2_000, tasks=4)
    writer = frame.write.format("springtide").mode("append").options(**target.options, delivery=delivery)
    writer.option("kafka.compression.type", "zstd").save()
    first = target.values()
    assert target.all() == list(range(2_000))
    assert len(first) == PARTITIONS
    writer.save()  # another job is another sink: it appends
    assert target.all() == sorted([*range(2_000), *range(2_000)])
    assert {p: set(found) for p, found in target.values().items()} == {p: set(f) for p, f in first.items()}


def test_a_repeated_job_with_a_name_adds_nothing(spark: Any, target: Target, tmp_path: Path) -> None:
    for _ in range(2):
        numbers(spark, 500, tasks=2).write.format("springtide").mode("append").options(
            **target.options, sinkId="backfill-7", checkpointLocation=str(tmp_path)
        ).save()
    assert target.all() == list(range(500))


def test_a_stream_stores_every_row_once_though_tasks_fail_and_a_batch_is_run_again(
    spark: Any, target: Target, tmp_path: Path
) -> None:
    from pyspark import TaskContext
    from pyspark.sql.functions import col, udf

    incoming, checkpoint = tmp_path / "incoming", tmp_path / "checkpoint"
    for part in range(3):
        spark.range(part * 3_000, (part + 1) * 3_000, 1, 1).write.mode("append").parquet(str(incoming))

    def fail_once(number: int) -> str:
        # No assertion: pytest's stand-in for it would have to be there on executors.
        task = TaskContext.get()
        if number % 3_000 == 2_500 and task is not None and task.attemptNumber() == 0:
            raise RuntimeError("the first attempt dies after most of its rows")
        return str(number)

    rows = (
        spark.readStream.schema("id long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(incoming))
        .select(
            udf(fail_once, useArrow=False)(col("id")).alias("value"), col("id").cast("string").alias("key")
        )
    )

    def run() -> None:
        query = (
            rows.writeStream.format("springtide")
            .options(**target.options, batchBytes="2048", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    run()
    stored = target.values()
    assert sorted(number for found in stored.values() for number in found) == list(range(9_000))
    assert all(found == sorted(found) for found in stored.values()), "each stream in its order"
    # The driver dies between the sink's commit and Spark's: the last micro-batch is run again.
    for name in ("2", ".2.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    run()
    assert target.values() == stored
    assert sorted(path.name for path in (checkpoint / "springtide-sink").iterdir()) == ["0", "1", "2"]


ROWS_EACH = 8_000
"""Of each of two tasks."""


def in_another_order(*, is_changing: bool) -> Callable[[Any], Any]:
    """What a shuffle may do: each attempt of a task has its rows in an order of its own. The first two fail
    on their way. is_changing: each attempt also has other rows. Hosts may not have this module, so that what
    they run is pickled whole."""

    def reordered(batches: Any) -> Any:
        import random

        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        attempt = 0 if task is None else task.attemptNumber()
        rows = pa.Table.from_batches(list(batches))
        order = random.Random(attempt).sample(range(rows.num_rows), rows.num_rows)
        if is_changing:
            place = rows.schema.get_field_index("value")
            changed = [f"{value}{attempt}" for value in rows["value"].to_pylist()]
            rows = rows.set_column(place, "value", pa.array(changed, rows.schema.field(place).type))
        for first in range(0, rows.num_rows, 500):
            if attempt < 2 and first >= rows.num_rows * (attempt + 1) // 3 + 1_000:
                raise RuntimeError("an executor died")
            yield from rows.take(order[first : first + 500]).combine_chunks().to_batches()

    return reordered


def left_by_the_first_attempt(stored: list[int], task: int) -> int:
    """How many of the keyed records in a partition come first, and in the first attempt's order."""
    import random

    mine = [number for number in stored if number // ROWS_EACH == task and number % 2]
    order = [task * ROWS_EACH + n for n in random.Random(0).sample(range(ROWS_EACH), ROWS_EACH)]
    there = set(mine)
    begun = [number for number in order if number in there]
    return next((n for n, (a, b) in enumerate(zip(mine, begun, strict=True)) if a != b), len(mine))


def test_a_task_that_is_run_again_in_another_order_stores_each_row_once(spark: Any, target: Target) -> None:
    """16,000 rows, half of them without a key; two attempts of each task die on their way."""
    small = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(small)
    spark.conf.set(small, "250")
    frame = spark.range(0, 2 * ROWS_EACH, 1, 2).selectExpr(
        "case when id % 2 = 1 then cast(id as string) end as key", "lpad(id, 40, '0') as value"
    )

    def write(*, is_changing: bool) -> None:
        rows = frame.mapInArrow(in_another_order(is_changing=is_changing), frame.schema)
        writer = rows.write.format("springtide").mode("append").options(**target.options)
        writer.option("batchBytes", "1024").save()

    try:
        with proving(row=6, part="reorder") as part:
            write(is_changing=False)
            stored = target.values()
            copies = Counter(number for numbers in stored.values() for number in numbers)
            part.missing = 2 * ROWS_EACH - len(copies)
            part.duplicates = copies.total() - len(copies)
            left = sum(left_by_the_first_attempt(found, task) for found in stored.values() for task in (0, 1))
            part.figures["records, of tasks that were run three times, each in another order"] = 2 * ROWS_EACH
            part.figures["keyed records that the first attempts had left"] = left
            part.faults["attempt dies, the next one has its rows in another order"] = 4
            assert left > ROWS_EACH // 10
            with pytest.raises(Exception, match="must be the same rows"):
                write(is_changing=True)
            part.faults["attempt dies, the next one has other rows: refused"] = 2
            assert part.is_ok
    finally:
        spark.conf.set(small, before)


def test_rows_that_name_their_topics_are_stored_once_though_tasks_fail(
    spark: Any, running_cluster: LocalCluster, client: Client, make_topic: Callable[..., str]
) -> None:
    topics = [make_topic(name, partitions=PARTITIONS) for name in ("even", "odd")]
    even, odd = (Target(running_cluster, client, topic) for topic in topics)
    named = f"if(value % 2 = 0, '{even.topic}', '{odd.topic}') as topic"
    frame = numbers(spark, 6_000, tasks=2).selectExpr("*", named)

    def write(frame: Any) -> None:
        writer = frame.write.format("springtide").mode("append")
        writer.option("kafka.bootstrap.servers", running_cluster.bootstrap_servers).save()

    write(frame.mapInArrow(in_another_order(is_changing=False), frame.schema))
    assert even.all() == list(range(0, 6_000, 2))
    assert odd.all() == list(range(1, 6_000, 2))
    with pytest.raises(Exception, match="'nowhere' can't be written to"):
        write(frame.selectExpr("value", "'nowhere' as topic"))


def test_a_table_of_the_catalog_is_inserted_into_with_options_and_read(spark: Any, target: Target) -> None:
    options = {**target.options, "subscribe": target.topic}
    spark.sql(
        "CREATE TABLE numbers USING springtide OPTIONS ("
        + ", ".join(f"'{name}' '{value}'" for name, value in options.items())
        + ")"
    )
    try:
        numbers(spark, 500, tasks=2).createOrReplaceTempView("some_numbers")
        rows = "(key, value) SELECT cast(key AS binary), cast(value AS binary) FROM some_numbers"
        given = ", ".join(f"'{name}' = '{value}'" for name, value in target.options.items())
        spark.sql(f"INSERT INTO numbers WITH ({given}) {rows}")
        assert target.all() == list(range(500))
        assert spark.table("numbers").where("partition = 1").count() == len(target.values()[1])
        # Spark gives the writer the columns of the rows, and with these of another table its options.
        with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers"):
            spark.sql("INSERT INTO numbers SELECT * FROM numbers")
        assert target.all() == list(range(500))
    finally:
        spark.sql("DROP TABLE numbers")


def test_a_log_is_appended_to_and_nothing_else(spark: Any, target: Target) -> None:
    by_spark = (
        "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"  # the default mode, too: Spark does not ask a Python source
    )
    for mode, message in (
        ("errorifexists", by_spark),
        ("ignore", by_spark),
        ("overwrite", "can't be overwritten"),
    ):
        writer = numbers(spark, 1, tasks=1).write.format("springtide").options(**target.options)
        with pytest.raises(Exception, match=message):
            writer.mode(mode).save()
    assert target.all() == []


def test_what_can_not_be_kept_is_refused_before_anything_is_written(spark: Any, target: Target) -> None:
    frame = numbers(spark, 1, tasks=1)
    for options, message in (
        ({"delivery": "transactional"}, "no transactions"),
        ({"sinkId": "x"}, "checkpointLocation"),
        ({"kafka.acks": "1"}, "acks=all"),
    ):
        with pytest.raises(Exception, match=message):
            frame.write.format("springtide").mode("append").options(**target.options, **options).save()
    assert target.all() == []
