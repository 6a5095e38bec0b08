"""A sink whose checkpoint is an older copy, or has lost its springtide-sink/: refused at once in words for
the query's author, with nothing written, and the way out that the words name works."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import LATEST, PartitionRange, TopicPartition
from pipeline.records.decode import decode_records

pytestmark = [pytest.mark.timeout(300)]
PARTITIONS = 3
EACH = 300
"""Rows of a micro-batch."""
AT_ONCE_SECONDS = 60
"""Four attempts of a task on a busy machine; half of what was waited before."""


class Written:
    """A query that writes numbers from a folder of files, a file a micro-batch."""

    def __init__(self, spark: Any, cluster: LocalCluster, client: Client, topic: str, place: Path) -> None:
        self._spark, self._cluster, self._client = spark, cluster, client
        self._topic, self._place = topic, place
        self._files = 0

    @property
    def checkpoint(self) -> Path:
        return self._place / "checkpoint"

    @property
    def sink_files(self) -> Path:
        return self.checkpoint / "springtide-sink"

    def add_files(self, count: int) -> None:
        for number in range(self._files, self._files + count):
            rows = self._spark.range(number * EACH, (number + 1) * EACH, 1, 1)
            rows.write.mode("append").parquet(str(self._place / "incoming"))
        self._files += count

    def run(self, **options: str) -> str:
        """Write what there is; return why it was refused, or ""."""
        rows = (
            self._spark.readStream.schema("id long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._place / "incoming"))
            .selectExpr("cast(id as string) as key", "cast(id as string) as value")
        )
        query = (
            rows.writeStream.format("springtide")
            .option("kafka.bootstrap.servers", self._cluster.bootstrap_servers)
            .options(topic=self._topic, checkpointLocation=str(self.checkpoint), **options)
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(200)
        except Exception as error:
            return str(error)
        return ""

    def refused_at_once(self) -> str:
        """Return the error of a run that ends at once."""
        began = time.monotonic()
        refused = self.run()
        assert time.monotonic() - began < AT_ONCE_SECONDS
        return refused

    def stored(self) -> Counter[int]:
        """How often each number is in the topic."""
        where = [TopicPartition(self._topic, partition) for partition in range(PARTITIONS)]
        ends = self._client.list_offsets(dict.fromkeys(where, LATEST))
        found: Counter[int] = Counter()
        ranges = [PartitionRange(*one, 0, ends[one].offset) for one in where if ends[one].offset]
        with self._client.fetch(ranges) as stream:
            for fetched in stream:
                for rows in decode_records(fetched.records, topic="", partition=0, columns=["value"]):
                    found.update(int(value) for value in rows.column("value").to_pylist())
        return found


@pytest.fixture
def written(
    spark: Any,
    running_cluster: LocalCluster,
    client: Client,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Written]:
    yield Written(spark, running_cluster, client, make_topic("old", partitions=PARTITIONS), tmp_path)


def times(once: range, twice: range) -> Counter[int]:
    return Counter({**dict.fromkeys(once, 1), **dict.fromkeys(twice, 2)})


def test_an_older_copy_of_the_checkpoint_is_refused_and_goes_on_under_a_new_name(
    written: Written, tmp_path: Path
) -> None:
    written.add_files(1)
    assert written.run() == ""
    shutil.copytree(written.checkpoint, tmp_path / "copy")
    written.add_files(2)
    assert written.run() == ""
    shutil.rmtree(written.checkpoint)
    shutil.copytree(tmp_path / "copy", written.checkpoint)

    refused = written.refused_at_once()
    assert "a later micro-batch of this sink has written: 1 after this one" in refused
    assert "The checkpoint is an older copy" in refused and "'sinkId'" in refused
    assert written.stored() == times(range(3 * EACH), range(0))

    shutil.rmtree(written.sink_files)
    assert written.run(sinkId="totals-2") == ""
    assert written.stored() == times(range(EACH), range(EACH, 3 * EACH))
    written.add_files(1)
    assert written.run(sinkId="totals-2") == ""
    assert written.stored() == times(range(EACH), range(EACH, 3 * EACH)) + times(
        range(3 * EACH, 4 * EACH), range(0)
    )


def test_a_checkpoint_without_the_sinks_files_is_refused_and_goes_on_under_a_new_name(
    written: Written,
) -> None:
    written.add_files(2)
    assert written.run() == ""
    # Spark's commit of the last micro-batch was not yet written when the driver died; and the folder is gone.
    for name in ("1", ".1.crc"):
        (written.checkpoint / "commits" / name).unlink(missing_ok=True)
    shutil.rmtree(written.sink_files)

    refused = written.refused_at_once()
    assert "this micro-batch has written before, and its checkpoint does not know it" in refused
    assert "its folder springtide-sink/ is gone" in refused and "'sinkId'" in refused
    assert written.stored() == times(range(2 * EACH), range(0))

    shutil.rmtree(written.sink_files)
    assert written.run(sinkId="totals-2") == ""
    assert written.stored() == times(range(EACH), range(EACH, 2 * EACH))
