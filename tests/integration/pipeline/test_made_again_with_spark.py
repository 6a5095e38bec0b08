"""A topic that is deleted and created again under a query of Spark: nothing of the new topic is skipped
without a word, in a running driver, after a restart, and between two runs of availableNow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import LATEST, PartitionRange, TopicPartition
from pipeline.records.decode import decode_records
from springtide.wire.records import NewRecord, encode_batch

FIRST_MS = 1_700_000_000_000
pytestmark = [pytest.mark.timeout(300)]


class Again:
    """A topic, and one query over it whose rows go to a folder. A driver's memory ends with each `start`."""

    def __init__(self, spark: Any, cluster: LocalCluster, client: Client, topic: str, place: Path) -> None:
        self._spark, self._cluster, self._client, self._topic, self._place = (
            spark,
            cluster,
            client,
            topic,
            place,
        )
        self._running: Any = None

    def write(self, name: str, count: int) -> None:
        records = [NewRecord(None, b"%s-%d" % (name.encode(), n), FIRST_MS + n) for n in range(count)]
        self._client.produce({TopicPartition(self._topic, 0): encode_batch(records)})

    def make_again(self) -> None:
        self._cluster.delete_topic(self._topic)
        self._cluster.create_topic(self._topic, partitions=1, replication_factor=3)

    def start(self, *, available_now: bool = False, **options: str) -> Any:
        frame = (
            self._spark.readStream.format("springtide")
            .option("kafka.bootstrap.servers", self._cluster.bootstrap_servers)
            .option("subscribe", self._topic)
            .options(startingOffsets="earliest", **options)
            .load()
        )
        writer = (
            frame.selectExpr("cast(value as string) as value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._place / "checkpoint"))
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        self._running = writer.start(str(self._place / "rows"))
        return self._running

    def settle(self) -> None:
        self._running.processAllAvailable()

    def finish(self) -> None:
        self._running.awaitTermination(120)
        assert not self._running.isActive

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def rows(self) -> list[str]:
        return sorted(row.value for row in self._spark.read.parquet(str(self._place / "rows")).collect())

    def forget_ids(self) -> None:
        """Make the checkpoint one of an earlier release: offsets without topic ids."""
        for path in (self._place / "checkpoint" / "offsets").iterdir():
            if not path.name.isdigit():
                path.unlink()  # Hadoop's checksum of the file as it was
                continue
            *head, last = path.read_text().splitlines()
            told = {name: each for name, each in json.loads(last).items() if "#" not in name}
            path.write_text("\n".join([*head, json.dumps(told)]))


@pytest.fixture
def again(
    spark: Any, running_cluster: LocalCluster, client: Client, make_topic: Callable[..., str], tmp_path: Path
) -> Iterator[Again]:
    one = Again(spark, running_cluster, client, make_topic("again"), tmp_path)
    yield one
    one.stop()


def names(name: str, count: int) -> list[str]:
    return [f"{name}-{n}" for n in range(count)]


WAYS = pytest.mark.parametrize("way", ["running", "restart", "availableNow"])


def read_ten(again: Again, way: str, **options: str) -> None:
    again.write("old", 10)
    again.start(available_now=way == "availableNow", **options)
    if way == "availableNow":
        again.finish()
    else:
        again.settle()
        if way == "restart":
            again.stop()
    assert again.rows() == sorted(names("old", 10))


def go_on(again: Again, way: str, **options: str) -> None:
    if way != "running":
        again.start(available_now=way == "availableNow", **options)
    if way == "availableNow":
        again.finish()
    else:
        again.settle()


@WAYS
def test_a_topic_made_again_is_an_error(again: Again, way: str, tmp_path: Path) -> None:
    options = {"startState": str(tmp_path / "state")}
    read_ten(again, way, **options)
    if way == "running":
        # Between two triggers the driver sees that it is gone, that it is another, or that it is empty.
        again.make_again()
        again.write("new", 25)
        with pytest.raises(
            Exception, match=r"created again|is gone; it was read up to|its log (ends|is empty)"
        ):
            again.settle()
        again.stop()
    else:
        again.make_again()
        again.write("new", 25)
    # Told by the driver; or by a task, where the running driver had planned a batch in between.
    with pytest.raises(Exception, match="was deleted and created again"):
        go_on(again, "restart" if way == "running" else way, **options)
    assert again.rows() == sorted(names("old", 10)), "nothing of it was read"
    again.stop()
    again.start(available_now=True, failOnDataLoss="false", **options)
    again.finish()
    assert again.rows() == sorted(names("old", 10) + names("new", 25)), "what the error says to do"


@pytest.mark.parametrize("way", ["running", "restart"])
def test_where_losses_are_accepted_the_new_topic_is_read_whole(again: Again, way: str) -> None:
    read_ten(again, way, failOnDataLoss="false")
    again.make_again()
    again.write("new", 25)
    go_on(again, way, failOnDataLoss="false")
    assert again.rows() == sorted(names("old", 10) + names("new", 25))


def test_an_old_checkpoint_is_read_and_has_ids_from_then_on(again: Again) -> None:
    read_ten(again, "restart")
    again.forget_ids()
    again.write("more", 5)
    again.start(available_now=True)
    again.finish()
    assert again.rows() == sorted(names("old", 10) + names("more", 5))
    again.make_again()
    again.write("new", 25)
    with pytest.raises(Exception, match="was deleted and created again"):
        go_on(again, "availableNow")


ROWS_EACH = 2_000


def waits_in_the_midst(marker: str, *, rows: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what gives the rows of its task; the second one's after `rows` when the file is there."""

    def rows_of(batches: Iterator[Any]) -> Iterator[Any]:
        import time
        from pathlib import Path

        from pyspark import TaskContext

        task, given, until = TaskContext.get(), 0, time.monotonic() + 120
        for batch in batches:
            if task is not None and task.partitionId() == 1 and given >= rows:
                while not Path(marker).exists() and time.monotonic() < until:
                    time.sleep(0.02)
            given += batch.num_rows
            yield batch

    return rows_of


def test_a_write_in_whose_midst_its_topic_is_made_again_is_whole_in_the_new_one_or_refused(
    spark: Any, running_cluster: LocalCluster, client: Client, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, marker = make_topic("target"), tmp_path / "go-on"
    where = TopicPartition(topic, 0)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "250")  # else the sink gets all at once
    frame = spark.range(0, 2 * ROWS_EACH, 1, 2).selectExpr("lpad(id, 200, '0') as value")
    frame = frame.mapInArrow(waits_in_the_midst(str(marker), rows=ROWS_EACH * 3 // 4), frame.schema)

    def write() -> None:
        writer = frame.write.format("springtide").mode("append").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", running_cluster.bootstrap_servers)
        writer.options(sinkId="again", checkpointLocation=str(tmp_path), batchBytes="2048").save()

    def stored() -> list[int]:
        end = client.list_offsets({where: LATEST})[where].offset
        with client.fetch([PartitionRange(*where, 0, end)]) as stream:
            rows = (decode_records(one.records, topic=topic, partition=0) for one in stream)
            return sorted(
                int(value) for some in rows for one in some for value in one.column("value").to_pylist()
            )

    tracker = spark.sparkContext.statusTracker()

    def is_first_task_done() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(stage is not None and stage.numCompletedTasks for stage in stages)

    def make_again_in_the_midst() -> None:
        deadline = client.deadline(120_000)
        # While the first task runs, it would begin anew, too, and the commit would have nothing to refuse.
        while not is_first_task_done() or client.list_offsets({where: LATEST})[where].offset <= ROWS_EACH:
            assert deadline.pause("rows of the second task")
        running_cluster.delete_topic(topic)
        running_cluster.create_topic(topic, partitions=1, replication_factor=3)
        marker.touch()

    try:
        with ThreadPoolExecutor(1) as pool:
            making_again = pool.submit(make_again_in_the_midst)
            with pytest.raises(Exception, match="was deleted and created again while it was written to"):
                write()
            making_again.result()
        client.refresh([topic])
        left = stored()
        assert left == sorted(set(left)), "nothing is doubled"
        write()
        assert stored() == list(range(2 * ROWS_EACH)), "run again, it is whole in the new topic"
    finally:
        marker.touch()
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
