"""The Declarative Pipelines of docs/spark-places.md, typed as it stands and run twice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pyarrow.dataset as ds
import pytest

from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.values import TopicPartition
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.librdkafka import consumer, read
from tests.kit.pipeline.spark_jvm import DRIVER_ENVIRONMENT

for needed in ("pyspark.pipelines", "grpc", "grpc_status", "pandas", "yaml", "zstandard"):
    pytest.importorskip(needed)

# Spark is started once a run.
pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
RECORDS = 100
RUN_SECONDS_MAX = 250.0


def test_a_declared_pipeline_goes_on_where_its_last_run_ended(
    running_cluster: LocalCluster, client: Client, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = make_topic("orders", partitions=2), make_topic("totals")
    page = (ROOT / "docs/spark-places.md").read_text("utf-8").split("\n## Declarative Pipelines\n")[1]
    (declared, python, command) = re.findall(r"(?ms)^```(?:yaml|python|sh)\n(.*?)^```$", page)[:3]
    for typed, here in (
        ("localhost:9092", running_cluster.bootstrap_servers),
        ('"subscribe": "orders"', f'"subscribe": "{source}"'),
        ('"topic": "totals"', f'"topic": "{target}"'),
    ):
        assert typed in python
        python = python.replace(typed, here)
    assert "file:///shared/orders-pipeline" in declared
    declared = declared.replace("file:///shared/orders-pipeline", (tmp_path / "storage").as_uri())
    (tmp_path / "spark-pipeline.yml").write_text(declared, "utf-8")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations/orders.py").write_text(python, "utf-8")
    environment = {
        **os.environ,
        **DRIVER_ENVIRONMENT,
        "JAVA_HOME": str(find_java().executable.resolve().parents[1]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    for run in (1, 2):
        for partition in range(2):
            records = [NewRecord(b"k", b"%d" % number, 1_700_000_000_000) for number in range(RECORDS)]
            client.produce({TopicPartition(source, partition): encode_batch(records)})
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        told = done.stdout + done.stderr
        assert done.returncode == 0, told[-8000:]
        warehouse = tmp_path / "spark-warehouse"
        rows = ds.dataset(warehouse / "orders", format="parquet").to_table(columns=["partition", "offset"])
        found = sorted((row["partition"], row["offset"]) for row in rows.to_pylist())
        assert found == [(partition, offset) for partition in range(2) for offset in range(run * RECORDS)]
        view = ds.dataset(warehouse / "orders_by_partition", format="parquet").to_table().to_pylist()
        assert sorted(map(tuple, (row.values() for row in view))) == [(0, run * RECORDS), (1, run * RECORDS)]
        with consumer(running_cluster) as opened:
            opened.assign([confluent_kafka.TopicPartition(target, 0, 0)])
            assert len(read(opened, 2 * run * RECORDS)) == 2 * run * RECORDS
            assert opened.poll(2) is None, "none is there twice"
