"""Jobs as processes, each with a Spark of its own: what a person sees of them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import PartitionRange, TopicPartition
from pipeline.jobs.cli import execute
from pipeline.land.reading import dataset
from pipeline.source.options import SourceView, TaskReading
from pipeline.source.reading import read_ranges
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.spark_jvm import DRIVER_ENVIRONMENT

pytestmark = [pytest.mark.timeout(400)]
PARTITIONS, BATCHES, RECORDS = 3, 10, 100
FIRST_MS = 1_700_000_000_000
NO_CHANGE: Mapping[str, str] = MappingProxyType({})


@pytest.fixture
def orders(make_topic: Callable[..., str], client: Client) -> str:
    """A topic of 3,000 records."""
    topic = make_topic("orders", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        for batch in range(BATCHES):
            records = [
                NewRecord(b"k%d" % n, b"%d %d" % (batch, n), FIRST_MS + batch * RECORDS + n)
                for n in range(RECORDS)
            ]
            client.produce({TopicPartition(topic, partition): encode_batch(records)})
    return topic


def pipeline(
    cluster: LocalCluster, *words: str, status: int = 0, environment: Mapping[str, str] = NO_CHANGE
) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, which must have this status."""
    java = str(find_java().executable.resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *words, "--bootstrap-server", cluster.bootstrap_servers],
        env={**os.environ, **DRIVER_ENVIRONMENT, "JAVA_HOME": java, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done


def rows_of(cluster: LocalCluster, topic: str, *, ends: Sequence[int]) -> list[dict[str, Any]]:
    config = ClientConfig(bootstrap=parse_bootstrap(cluster.bootstrap_servers))
    reading = TaskReading(config, SourceView.RECORDS, ("partition", "offset", "key", "value", "timestamp"))
    ranges = [PartitionRange(topic, number, 0, end) for number, end in enumerate(ends)]
    return [row for rows in read_ranges(reading, ranges) for row in rows.to_pylist()]


def test_a_job_does_the_same_in_its_own_process_and_on_spark(
    running_cluster: LocalCluster, orders: str, make_topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    def told(engine: str, *words: str) -> dict[str, Any]:
        """On Spark, `verify` is a process with a Spark of its own: it takes longer to start than the other
        jobs take in the session's."""
        asked = (*words, "--engine", engine, "--output", "json")
        if engine == "spark" and words[0] != "verify":
            out, err = io.StringIO(), io.StringIO()
            where = ("--bootstrap-server", running_cluster.bootstrap_servers)
            assert execute([*asked, *where], out, err, spark=spark) == 0, err.getvalue()
            shown, noted = out.getvalue(), err.getvalue()
        else:
            done = pipeline(running_cluster, *asked)
            shown, noted = done.stdout, done.stderr
        # The last line is the end of the work, on either engine: no traceback follows it.
        assert noted.splitlines()[-1].startswith(("100 %", "batch 0:")), noted
        assert "Traceback" not in noted
        result: dict[str, Any] = json.loads(shown)
        return result

    found: dict[str, list[Any]] = {}
    for engine in ("local", "spark"):
        lake, copy = tmp_path / engine, make_topic("copy", partitions=PARTITIONS)
        verified = told(engine, "verify", orders)
        landed = told(engine, "land", orders, str(lake))
        replayed = told(engine, "replay", str(lake), copy, "--checkpoint", str(tmp_path / f"{engine}-run"))
        found[engine] = [
            [verified[name] for name in ("records", "batches", "comparedBytes", "findingsTotal")],
            {**landed, "destination": ""},
            dataset(lake).to_table().sort_by([("partition", "ascending"), ("offset", "ascending")]),
            [replayed[name] for name in ("rounds_done", "tasks", "records_stored")],
            sorted(
                rows_of(running_cluster, copy, ends=[BATCHES * RECORDS] * PARTITIONS),
                key=lambda row: (row["partition"], row["offset"]),
            ),
        ]
    assert found["local"] == found["spark"]
    assert len(found["local"][-1]) == PARTITIONS * BATCHES * RECORDS


def test_a_small_job_starts_no_spark(running_cluster: LocalCluster, orders: str, tmp_path: Path) -> None:
    no_java = {"JAVA_HOME": str(tmp_path)}
    done = pipeline(running_cluster, "land", orders, str(tmp_path / "lake"), environment=no_java)
    assert "3,000 records landed" in done.stdout
    done = pipeline(running_cluster, "verify", orders, "--engine", "spark", status=1, environment=no_java)
    assert "Spark needs Java" in done.stderr


def test_a_record_above_a_batch_is_written_as_far_as_its_topic_allows(
    running_cluster: LocalCluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    sizes = [10, 3_000_000, 1_020_000, 10]
    source = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"value": [b"v" * size for size in sizes]}), source)
    roomy, narrow = make_topic("roomy", max_message_bytes="4000000"), make_topic("narrow")
    pipeline(running_cluster, "replay", str(source), roomy, "--checkpoint", str(tmp_path / "1"))
    rows = rows_of(running_cluster, roomy, ends=[len(sizes)])
    assert [len(row["value"]) for row in rows] == sizes
    asked = ("replay", str(source), narrow, "--checkpoint", str(tmp_path / "2"), "--compression", "none")
    done = pipeline(running_cluster, *asked, status=1)
    assert "MESSAGE_TOO_LARGE" in done.stderr
