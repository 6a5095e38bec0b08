"""Where a stream begins stays where it was, and what it remembers of leaders outlives its driver."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import LATEST, TopicPartition
from springtide.wire.records import NewRecord, encode_batch
from tests.pipeline_proof.part import proving

pytestmark = [pytest.mark.timeout(300)]
ROUNDS = 3
DRIVERS_MAX = 3
DRIVER_SECONDS = 240


def produce(client: Client, topic: str, first: int, count: int) -> None:
    records = [NewRecord(None, b"%d" % n, 1_700_000_000_000 + n) for n in range(first, first + count)]
    client.produce({TopicPartition(topic, 0): encode_batch(records)})


class Stream:
    """A query from "latest" that writes what it reads to a folder, and can be made to fail in a batch."""

    def __init__(self, spark: Any, cluster: LocalCluster, topic: str, path: Path) -> None:
        self._spark = spark
        self._path = path
        self._reader = (
            spark.readStream.format("springtide")
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("subscribe", topic)
            .option("startState", str(path / "source"))
        )

    def run(self, fails_at: int | None = None) -> str:
        """Takes what there is; why it failed, or nothing."""
        rows = str(self._path / "rows")

        def write(frame: Any, batch_id: int) -> None:
            if batch_id == fails_at:
                raise RuntimeError("killed before its commit")
            frame.selectExpr("cast(value as string) as value").write.mode("append").parquet(rows)

        query = (
            self._reader.load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self._path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(120)
        except Exception as error:
            return str(error)
        finally:
            query.stop()
        return ""

    def values(self) -> list[int]:
        return sorted(int(row.value) for row in self._spark.read.parquet(str(self._path / "rows")).collect())


def test_a_query_that_dies_before_its_first_commit_loses_nothing(
    spark: Any,
    running_cluster: LocalCluster,
    client: Client,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    topic = make_topic("start")
    produce(client, topic, 0, 100)
    stream = Stream(spark, running_cluster, topic, tmp_path)
    assert "killed before its commit" in stream.run(fails_at=0)
    produce(client, topic, 100, 50)
    assert stream.run() == ""
    assert stream.values() == list(range(100, 150))
    # And a log that is another one than was read is found out by what is remembered of its leaders.
    remembered = tmp_path / "source" / "epochs.json"
    told = json.loads(remembered.read_text())
    told["partitions"][topic]["0"] += 1_000
    remembered.write_text(json.dumps(told))
    produce(client, topic, 150, 10)
    assert "the log is another one" in stream.run()
    assert stream.values() == list(range(100, 150))


# --- the proof's: a driver that is really killed ----------------------------------------------------------

DRIVER = """
import os, signal, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from springtide.wire.records import NewRecord, encode_batch
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import LATEST, TopicPartition
servers, topic, place, kind, kills = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF").getOrCreate()
)

class Naive(DataSource):
    '''What the API invites to: the initial offset is the log's end as it is when Spark asks.'''
    @classmethod
    def name(cls): return "naive"
    def schema(self): return "value string"
    def streamReader(self, schema): return NaiveReader(self.options)

class NaiveReader(DataSourceStreamReader):
    def __init__(self, options): self.options = options
    def end(self):
        where = TopicPartition(self.options["topic"], 0)
        with Client(ClientConfig(bootstrap=parse_bootstrap(self.options["servers"]))) as client:
            return {"at": client.list_offsets({where: LATEST})[where].offset}
    def initialOffset(self):
        start = self.end()
        told = Path(self.options["place"], "start")
        if not told.exists(): told.write_text(str(start["at"]))
        return start
    def latestOffset(self, start=None, limit=None):
        # Records come between Spark's two questions: an empty first batch would pin the start.
        first = int(Path(self.options["place"], "start").read_text())
        while self.options["kills"] == "kill" and self.end()["at"] <= first: time.sleep(0.05)
        return self.end()
    def partitions(self, start, end): return [InputPartition((start["at"], end["at"]))]
    def read(self, partition):
        for n in range(*partition.value): yield (str(n),)

spark.dataSource.register(Naive)
if kind == "naive":
    told = dict(servers=servers, topic=topic, place=place, kills=kills)
    frame = spark.readStream.format("naive").options(**told).load()
else:
    frame = (
        spark.readStream.format("springtide").option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic).load()
    )

def write(rows, batch_id):
    if kills == "kill" and batch_id == 0:
        os.killpg(0, signal.SIGKILL)
    rows.selectExpr("cast(value as string) as value").write.mode("append").parquet(place + "/rows")

query = (
    frame.writeStream.foreachBatch(write).option("checkpointLocation", place + "/checkpoint").start()
)
if kills == "kill":
    while not Path(place, "start").exists(): query.awaitTermination(0.1)
    records = [NewRecord(None, b"%d" % n, 1_700_000_000_000) for n in range(100, 150)]
    with Client(ClientConfig(bootstrap=parse_bootstrap(servers))) as client:
        client.produce({TopicPartition(topic, 0): encode_batch(records)})
query.processAllAvailable()
values = sorted(int(row.value) for row in spark.read.parquet(place + "/rows").collect())
print("VALUES", *values, flush=True)
os.killpg(0, signal.SIGKILL)
"""


def drive(words: list[str], *, is_killed: bool) -> set[int] | None:
    """One driver in a process group of its own; what was read in all, or None if it was killed before.

    One that ends by itself (on a busy host: "Python worker failed to connect back") has failed where nobody
    chose, and is started again like one that was killed.
    """
    for _ in range(DRIVERS_MAX):
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, *words, "kill" if is_killed else "live"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as driver:
            try:
                out, err = driver.communicate(timeout=DRIVER_SECONDS)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(driver.pid, signal.SIGKILL)
        if driver.returncode == -signal.SIGKILL:
            told = next((line for line in out.decode().splitlines() if line.startswith("VALUES")), None)
            return None if told is None else {int(word) for word in told.split()[1:]}
    raise AssertionError(f"{DRIVERS_MAX} drivers ended by themselves: {err.decode()[-2_000:]}")


def started_at(place: Path, topic: str) -> int:
    """Where the query began: what the naive source said first, or the end of our empty first micro-batch."""
    if (place / "start").exists():
        return int((place / "start").read_text())
    told = (place / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    return int(json.loads(told)[topic]["0"])


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_a_driver_that_is_killed_before_its_first_commit_loses_nothing(
    spark: Any,
    running_cluster: LocalCluster,
    client: Client,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    with proving(row=7, part="start") as part:
        lost: dict[str, int] = {"springtide": 0, "naive": 0}
        for kind, rounds in (("springtide", ROUNDS), ("naive", 1)):
            for number in range(rounds):
                topic, place = make_topic("start"), tmp_path / f"{kind}-{number}"
                place.mkdir()
                where = TopicPartition(topic, 0)
                produce(client, topic, 0, 100)
                words = [running_cluster.bootstrap_servers, topic, str(place), kind]
                assert drive(words, is_killed=True) is None
                start = started_at(place, topic)
                assert start == 100, "latest is latest"
                end = client.list_offsets({where: LATEST})[where].offset
                produce(client, topic, end, 200)
                found = drive(words, is_killed=False)
                assert found is not None
                assert min(found) >= start
                lost[kind] += len(set(range(start, end + 200)) - found)
        part.faults["SIGKILL of the driver's process group before batch 0 commits"] = ROUNDS + 1
        part.missing += lost["springtide"]
        part.figures["records lost, of 200 in each of the rounds"] = lost["springtide"]
        part.figures["the same with the raw API (initialOffset is latest)"] = lost["naive"]
        if not lost["naive"]:
            part.fail("the raw API lost nothing: this test shows nothing")
        assert lost["springtide"] == 0
