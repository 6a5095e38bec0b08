"""One Spark session for every test of the pipeline: it takes longer to start than most tests to run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap

pyspark_sql = pytest.importorskip("pyspark.sql")

ROOT = Path(__file__).resolve().parents[3]
MASTER = "local[2,4]"
"""Two tasks at a time, four attempts for each: plain local[2] never retries a task."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A SparkSession. Its workers import the packages from this checkout."""
    scratch = tmp_path_factory.mktemp("spark")
    kept = dict(os.environ)
    os.environ["JAVA_HOME"] = str(find_java().executable.resolve().parents[1])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = pyspark_sql.SparkSession.builder.master(MASTER).appName("tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.stopTimeout": "30s",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture
def client(running_cluster: LocalCluster) -> Iterator[Client]:
    config = ClientConfig(bootstrap=parse_bootstrap(running_cluster.bootstrap_servers))
    with Client(config) as one:
        yield one
