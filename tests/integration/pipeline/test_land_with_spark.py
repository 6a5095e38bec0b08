"""`pipeline land` with Spark and brokers that are processes; Spark and pyarrow read what was written."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pytest

from localcluster.cluster import LocalCluster
from pipeline.client.client import Client
from pipeline.client.values import TopicPartition
from pipeline.jobs import cli
from pipeline.land import job
from pipeline.land.latest import read_latest
from pipeline.land.reading import dataset, landed, read
from springtide.wire.compression import Compression
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.land_driver import HAS_DELTA, MOMENTS, LandProcess
from tests.kit.pipeline.land_world import data_files
from tests.pipeline_proof.part import proving

NOON_MS = 1_700_049_600_000
pytestmark = [pytest.mark.timeout(300)]
RUNS_MAX = 10


class Topic:
    """What was written to it, and the command line that lands it."""

    def __init__(self, spark: Any, cluster: LocalCluster, client: Client, name: str, dest: Path) -> None:
        self.spark = spark
        self.servers = cluster.bootstrap_servers
        self.client = client
        self.name = name
        self.dest = dest
        self.written: list[tuple[int, int, str]] = []

    def write(self, partition: int, count: int, *, step_ms: int = 60_000, value: str = "") -> None:
        first = sum(row[0] == partition for row in self.written)
        rows = [(partition, first + n, f"{partition}:{first + n}{value}") for n in range(count)]
        records = [
            NewRecord(b"k%d" % n, row[2].encode(), NOON_MS + row[1] * step_ms, (("h", b"1"),))
            for n, row in enumerate(rows)
        ]
        batch = encode_batch(records, compression=Compression.ZSTD)
        self.client.produce({TopicPartition(self.name, partition): batch})
        self.written += rows

    def land(self, *arguments: str) -> int:
        words = ["land", self.name, str(self.dest), "--bootstrap-server", self.servers, *arguments]
        return cli.main(words, spark=self.spark)

    def by_spark(self) -> list[tuple[int, int, str]]:
        rows = read(self.spark, self.dest).select("partition", "offset", "value").collect()
        return sorted((row[0], row[1], bytes(row[2]).decode()) for row in rows)

    def by_pyarrow(self) -> list[tuple[int, int, str]]:
        rows = dataset(self.dest).to_table(columns=["partition", "offset", "value"]).to_pylist()
        return sorted((row["partition"], row["offset"], row["value"].decode()) for row in rows)

    def check(self) -> None:
        assert self.by_pyarrow() == sorted(self.written)
        assert self.by_spark() == sorted(self.written)
        assert sorted(file.path for file in landed(self.dest).files) == data_files(self.dest)


@pytest.fixture
def topic(
    spark: Any,
    running_cluster: LocalCluster,
    client: Client,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Topic:
    name = make_topic("land", partitions=3, retention_ms="-1")
    return Topic(spark, running_cluster, client, name, tmp_path / "lake")


def test_what_is_there_lands_once_by_spark_and_by_pyarrow(
    topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.sql.functions import col

    topic.write(0, 100)
    topic.write(1, 10)
    assert topic.land("--dry-run", "--output", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["offsets"], told["tasks"], topic.dest.exists()) == (110, 1, False)
    assert topic.land("--output", "json", "--records-per-task", "60") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], told["batches"], told["losses"]) == (110, 1, [])
    topic.check()
    topic.write(0, 20)
    topic.write(2, 1)
    assert topic.land("--compression", "snappy") == 0
    assert "21 records landed" in capsys.readouterr().out
    topic.check()
    assert topic.land("--dry-run") == 0
    assert "has it all" in capsys.readouterr().out
    frame = read(topic.spark, topic.dest, [topic.name])
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>,topic:string,date:date,hour:int>"
    )
    one = frame.filter((col("date") == "2023-11-15") & (col("hour") == 13) & (col("partition") == 0))
    assert one.count() == 60
    row = one.orderBy("offset").first()
    assert row is not None
    assert (row["timestamp"].minute, row["topic"], row["headers"][0]["key"]) == (0, topic.name, "h")


def test_the_latest_record_of_each_key_is_a_view_that_follows(topic: Topic) -> None:
    topic.write(0, 30)  # keys k0 to k29
    topic.write(1, 5)
    assert topic.land("--compact") == 0

    def view() -> dict[tuple[int, bytes], tuple[int, str]]:
        rows = read_latest(topic.spark, topic.dest, [topic.name]).collect()
        found = {
            (row["partition"], bytes(row["key"])): (row["offset"], bytes(row["value"]).decode())
            for row in rows
        }
        assert len(found) == len(rows)
        return found

    assert len(view()) == 35
    assert topic.land("--compact") == 0, "nothing new: the view stays"
    topic.write(0, 10)  # k0 to k9 again
    records = [NewRecord(b"k%d" % n, None, NOON_MS) for n in (3, 29)] + [NewRecord(None, b"no key", NOON_MS)]
    topic.client.produce({TopicPartition(topic.name, 0): encode_batch(records)})
    assert topic.land() == 0
    topic.write(1, 1)
    assert topic.land("--compact") == 0
    by_hand = {(0, b"k%d" % n): (n, f"0:{n}") for n in range(30)}
    by_hand |= {(0, b"k%d" % n): (30 + n, f"0:{30 + n}") for n in range(10)}
    by_hand |= {(1, b"k%d" % n): (n, f"1:{n}") for n in range(5)} | {(1, b"k0"): (5, "1:5")}
    del by_hand[0, b"k3"], by_hand[0, b"k29"]
    assert view() == by_hand
    assert data_files(topic.dest) == sorted(file.path for file in landed(topic.dest).files)
    assert len(list((topic.dest / "_latest").iterdir())) == 2, "the last, and the one that may still be read"


def test_workers_that_are_killed_land_nothing_twice(topic: Topic) -> None:
    """Python workers get SIGKILL while they fetch and write; Spark runs their tasks again. A run that ended
    before a worker was met with a file open is followed by another one, of new records."""
    killed: list[int] = []
    is_over = threading.Event()

    def kill_workers() -> None:
        aside = topic.dest / "_springtide" / "aside"
        while not is_over.wait(0.002) and len(killed) < 2:
            if not any(aside.glob("*/*")):
                continue
            for process in psutil.Process().children(recursive=True):
                try:
                    holds = any(str(aside) in each.path for each in process.open_files())
                    if holds and process.is_running():
                        os.kill(process.pid, signal.SIGKILL)
                        killed.append(process.pid)
                        break
                except (psutil.Error, ProcessLookupError):
                    continue

    killer = threading.Thread(target=kill_workers)
    killer.start()
    try:
        for _ in range(RUNS_MAX):
            for partition in range(3):
                for _ in range(40):
                    topic.write(partition, 500, step_ms=500, value="x" * 200)
            assert topic.land("--records-per-task", "2000", "--records-per-batch", "30000") == 0
            if killed:
                break
    finally:
        is_over.set()
        killer.join()
    assert killed, f"no worker with a file open was met in {RUNS_MAX} runs"
    topic.check()


def test_a_command_line_that_can_not_be_is_refused(
    topic: Topic, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert topic.land("--pattern", "x") == 2
    assert topic.land("--continuous", "--ending-offsets", "latest") == 2
    assert topic.land("--starting-offsets", "latest") == 2
    assert topic.land("--partition-by", "year") == 1
    words = ["land", topic.name, "s3://bucket/lake", "--bootstrap-server", topic.servers]
    assert cli.main(words, spark=topic.spark) == 1
    assert "not on a mounted file system" in capsys.readouterr().err
    assert cli.main(["land", "nobody-has-this", str(tmp_path / "x"), *words[3:]], spark=topic.spark) == 2
    assert not (tmp_path / "x").exists()


def test_a_stream_lands_what_comes_until_it_is_interrupted(
    topic: Topic, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0

    def next_round(_: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise KeyboardInterrupt
        topic.write(0, rounds)

    monkeypatch.setattr(job, "pause", next_round)
    assert topic.land("--continuous", "--every", "1s") == 130
    assert [row[1] for row in topic.by_pyarrow()] == [0, 1, 2]
    assert "batch 2: 2 records" in capsys.readouterr().err


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_killed_at_each_step_every_reader_reads_every_offset_once(topic: Topic, tmp_path: Path) -> None:
    """Driver, JVM and workers get SIGKILL at one step after another, each time while more has come."""
    with proving(row=10, part="land-kills") as part:
        words = [topic.name, str(topic.dest), "--bootstrap-server", topic.servers]
        words += ["--records-per-task", "900", "--records-per-batch", "6000"]
        process = LandProcess(topic.dest, words, tmp_path / "log")
        for moment in MOMENTS:
            for _ in range(RUNS_MAX):  # one that ended before the moment was seen is followed by another
                for partition in range(3):
                    for _ in range(8):
                        topic.write(partition, 400, step_ms=700, value="x" * 300)
                if process.run(moment):
                    part.faults[f"SIGKILL: {moment.name}"] = 1
                    break
            else:
                part.fail(f"{RUNS_MAX} runs ended before this was seen: {moment.name}")
        process.run()
        written = sorted(row[:2] for row in topic.written)
        part.figures["records"] = len(written)
        part.figures["batches"] = landed(topic.dest).batches
        for reader, found in readers(topic).items():
            part.figures[f"read by {reader}"] = len(found)
            part.missing += len(set(written) - set(found))
            part.duplicates += len(found) - len(set(found))
        if not HAS_DELTA:
            part.not_compared("deltalake is not installed")
        assert part.is_ok
        topic.check()


def readers(topic: Topic) -> dict[str, list[tuple[int, int]]]:
    """(partition, offset) of each row that somebody reads: by manifests, and by what stands in the folder."""
    columns = ["partition", "offset"]
    tables = {
        "pyarrow, manifests": dataset(topic.dest).to_table(columns=columns),
        "pyarrow, the folder": ds.dataset(topic.dest, partitioning="hive").to_table(columns=columns),
    }
    if HAS_DELTA:
        from deltalake import DeltaTable

        tables["deltalake"] = DeltaTable(str(topic.dest)).to_pyarrow_table(columns=columns)
    frames = {
        "Spark, manifests": read(topic.spark, topic.dest),
        "Spark, the folder": topic.spark.read.parquet(str(topic.dest)),
    }
    found = {
        name: list(zip(*(table[column].to_pylist() for column in columns), strict=True))
        for name, table in tables.items()
    }
    for name, frame in frames.items():
        found[name] = [(row[0], row[1]) for row in frame.select(*columns).collect()]
    return found
