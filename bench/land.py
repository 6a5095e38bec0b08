"""Topics to Parquet, by `pipeline land` and by Spark's own writer: `python -m bench land [--quick]`.

Both sides read the same topic of the same broker with the same client and decoder, on one Spark of two slots,
into zstd (level 3): `pipeline land` writes in the Python workers, the other side hands rows to the JVM and
writes with `DataFrame.write.parquet`. Each is measured twice: in one folder, and in folders by topic, date
and hour, for which Spark's writer sorts. Sides take turns after a round that does not count; the figure is
the median. Broker, driver and workers share this machine, so processor time stands beside: of driver, JVM and
workers, without the broker.

Where `make connector` could get it, Spark's Kafka source with Spark's writer is a third side.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.command import add_quick
from bench.spark_side import NOW_MS, make_rows
from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import TopicPartition
from pipeline.jobs import cli
from pipeline.jobs.session import make_session
from pipeline.land.reading import landed
from pipeline.records.encode import BatchOptions, PartitionEncoder
from springtide.wire.compression import Compression
from tests.pipeline_proof.connector import FORMAT, NOT_AT_HAND, connector_settings, connector_version
from tests.pipeline_proof.part import proving

SLOTS = 2
PARTITIONS = 4
BATCH_BYTES = 64 * 1024
ROUNDS, ROUNDS_QUICK = 3, 1
BYTES, BYTES_QUICK = 200_000_000, 20_000_000
LEVEL = "3"
RATIO_MIN = 1.5
OURS, SPARKS, OFFICIAL = "pipeline land", "Spark's writer", "Spark's Kafka source and writer"
FOLDERS = {"one folder": "", "topic, date, hour": "topic,date,hour"}
PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
Run = Callable[[str, Path], int]
"""(how to partition, destination) to how many records it wrote."""


class Figure(NamedTuple):
    """One round of one side."""

    wall_s: float
    cpu_s: float
    records: int


class Line(NamedTuple):
    """Medians of one case: seconds and processor seconds by side."""

    record_bytes: int
    folders: str
    records: int
    payload_bytes: int
    wall_s: dict[str, float]
    cpu_s: dict[str, float]

    def ratio(self, side: str) -> float:
        """How many times as fast ours is."""
        return self.wall_s[side] / self.wall_s[OURS]

    def cpu_ratio(self, side: str) -> float:
        return self.cpu_s[side] / self.cpu_s[OURS]


def fill(client: Client, topic: str, record_bytes: int, payload_bytes: int) -> int:
    """Writes the records, dealt out to the partitions; returns how many."""
    rows = make_rows(record_bytes, total_bytes=payload_bytes // PARTITIONS)
    batches = {}
    for number in range(PARTITIONS):
        encoder = PartitionEncoder(
            options=BatchOptions(Compression.LZ4, batch_bytes_max=BATCH_BYTES), timestamp_ms=NOW_MS
        )
        batches[TopicPartition(topic, number)] = [*encoder.add(rows), *encoder.finish()]
    for index in range(max(map(len, batches.values()))):
        client.produce({where: each[index].data for where, each in batches.items() if index < len(each)})
    count: int = rows.num_rows
    return count * PARTITIONS


def land(spark: Any, servers: str, topic: str) -> Run:
    def run(partition_by: str, dest: Path) -> int:
        words = ["land", topic, str(dest), "--bootstrap-server", servers, "--compression-level", LEVEL]
        with redirect_stdout(StringIO()):
            assert cli.main([*words, "--partition-by", partition_by], spark=spark) == 0
        return landed(dest).records

    return run


def spark_write(spark: Any, servers: str, topic: str, *, format_name: str) -> Run:
    from pyspark.sql.functions import hour, to_date  # noqa: PLC0415 - Spark is an extra

    def run(partition_by: str, dest: Path) -> int:
        frame = spark.read.format(format_name).option("kafka.bootstrap.servers", servers)
        frame = frame.option("subscribe", topic).option("includeHeaders", "true")
        frame = frame.option("minPartitions", str(PARTITIONS)).load()
        names = [name for name in partition_by.split(",") if name]
        if names:
            frame = frame.withColumn("date", to_date("timestamp")).withColumn("hour", hour("timestamp"))
        writer = frame.write.option("compression", "zstd")
        (writer.partitionBy(*names) if names else writer).parquet(str(dest))
        written: int = spark.read.parquet(str(dest)).count()
        return written

    return run


def measure(spark: Any, run: Run, partition_by: str, dest: Path, *, expected: int) -> Figure:
    cpu, begun = processor_seconds(spark), time.monotonic()
    found = run(partition_by, dest)
    figure = Figure(time.monotonic() - begun, processor_seconds(spark) - cpu, found)
    if found != expected:
        raise RuntimeError(f"{found} records were written, {expected} are in the topic")
    return figure


def processor_seconds(spark: Any) -> float:
    """Of the driver, its JVM and the Python workers below that; of those that have ended, too, once their
    parent has been told."""
    total = 0.0
    left = [os.getpid(), int(spark.sparkContext._gateway.proc.pid)]
    seen: set[int] = set()
    while left:
        pid = left.pop()
        if pid in seen:
            continue
        seen.add(pid)
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            stat = (PROC / str(pid) / "stat").read_text("ascii", "replace")
            fields = stat[stat.rindex(")") + 2 :].split()
            # The driver's own children are the brokers, and the JVM, which is counted by itself.
            times = fields[11:13] if pid == os.getpid() else fields[11:15]
            total += sum(map(int, times)) / TICKS_PER_SECOND
            if pid == os.getpid():
                continue
            for task in (PROC / str(pid) / "task").iterdir():
                with suppress(FileNotFoundError, ProcessLookupError):
                    left += map(int, (task / "children").read_text().split())
    return total


def compare(
    spark: Any, client: Client, cluster: LocalCluster, record_bytes: int, *, payload: int, rounds: int
) -> list[Line]:
    topic = f"bench-{record_bytes}"
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=1, configs={"retention.ms": "-1"})
    records = fill(client, topic, record_bytes, payload)
    servers = cluster.bootstrap_servers
    sides = {
        OURS: land(spark, servers, topic),
        SPARKS: spark_write(spark, servers, topic, format_name="springtide"),
    }
    if connector_version():
        sides[OFFICIAL] = spark_write(spark, servers, topic, format_name=FORMAT)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="springtide-bench-land-") as scratch:
        for folders, partition_by in FOLDERS.items():
            figures: dict[str, list[Figure]] = {name: [] for name in sides}
            for number in range(rounds + 1):
                for name, run in sides.items():
                    dest = Path(scratch) / f"{len(lines)}-{number}-{len(name)}"
                    figure = measure(spark, run, partition_by, dest, expected=records)
                    if number > 0:  # the first warms workers, the JVM and the page cache
                        figures[name].append(figure)
            lines.append(
                Line(
                    record_bytes,
                    folders,
                    records,
                    payload,
                    {name: median(one.wall_s for one in found) for name, found in figures.items()},
                    {name: median(one.cpu_s for one in found) for name, found in figures.items()},
                )
            )
    return lines


def render(lines: Sequence[Line]) -> str:
    text = [
        "bytes  folders            side                             Mrec/s  MB/s  CPU-s/GB  faster  less CPU"
    ]
    for line in lines:
        for side, wall_s in line.wall_s.items():
            megabytes, gigabytes = line.payload_bytes / 1e6, line.payload_bytes / 1e9
            text.append(
                f"{line.record_bytes:>5}  {line.folders:<17}  {side:<31}  "
                f"{line.records / wall_s / 1e6:6.3f}  {megabytes / wall_s:4.0f}  "
                f"{line.cpu_s[side] / gigabytes:8.1f}  "
                f"{line.ratio(side):5.2f}x  {line.cpu_ratio(side):7.2f}x"
            )
    return "\n".join(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_quick(parser, "one small round: that it works, not how fast")


def run(options: argparse.Namespace) -> int:
    os.environ["JAVA_HOME"] = str(find_java().executable.resolve().parents[1])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    rounds, payload = (ROUNDS_QUICK, BYTES_QUICK) if options.quick else (ROUNDS, BYTES)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.hadoop.parquet.compression.codec.zstd.level": LEVEL,
        **connector_settings(),
    }
    with proving(row=3, part="land") as part, LocalCluster(brokers=1) as cluster:
        cluster.form()
        spark = make_session(name="bench", master=f"local[{SLOTS}]", remote=None, settings=settings)
        try:
            with Client(ClientConfig(bootstrap=parse_bootstrap(cluster.bootstrap_servers))) as client:
                lines = [
                    line
                    for record_bytes in (1000, 100)
                    for line in compare(spark, client, cluster, record_bytes, payload=payload, rounds=rounds)
                ]
        finally:
            spark.stop()
        print(render(lines))
        for line in lines:
            name = f"{line.record_bytes} B, {line.folders}"
            rate = line.records / line.wall_s[OURS] / 1e6
            part.figures[f"{name}: Mrec/s"] = round(rate, 3)
            for side in (SPARKS, OFFICIAL):
                if side not in line.wall_s:
                    continue
                ratio = line.ratio(side)
                part.figures[f"{name}: times {side}, at least {RATIO_MIN}"] = round(ratio, 2)
                part.figures[f"{name}: times less processor than {side}"] = round(line.cpu_ratio(side), 2)
                if ratio < RATIO_MIN and not options.quick:
                    part.fail(f"{name}: {ratio:.2f} times {side} is below {RATIO_MIN}")
        if connector_version() is None:
            part.not_compared(f"Spark's Kafka source: {NOT_AT_HAND}")
        return 0 if part.is_ok else 1
