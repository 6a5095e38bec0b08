"""One Spark session for every test of the pipeline: it takes longer to start than most tests to run.

`SPARK_TEST_MASTER` names another place for it (spark_places.py): any master, or the URL of a Connect
server. With `SPARK_TEST_ARCHIVES`, tasks have what that archive holds and nothing of the checkout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.jobs.session import worker_python
from tests.kit.pipeline.spark_jvm import DRIVER_ENVIRONMENT, home_without_python
from tests.pipeline_proof.connector import connector_settings

pyspark_sql = pytest.importorskip("pyspark.sql")

ROOT = Path(__file__).resolve().parents[3]
MASTER = os.environ.get("SPARK_TEST_MASTER", "local[2,4]")
"""Two tasks at a time, four attempts for each: plain local[2] never retries a task."""
ARCHIVES = os.environ.get("SPARK_TEST_ARCHIVES", "")
IS_CONNECT = MASTER.startswith("sc://")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A SparkSession. Unless there is an archive, its workers import the packages from this checkout."""
    scratch = tmp_path_factory.mktemp("spark")
    kept = dict(os.environ)
    os.environ["JAVA_HOME"] = str(find_java().executable.resolve().parents[1])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.update(DRIVER_ENVIRONMENT)
    if MASTER.startswith("local["):
        os.environ["SPARK_HOME"] = str(home_without_python(scratch))
    if ARCHIVES:
        os.environ["PYTHONPATH"] = ""  # Spark would ship it to the executors
    else:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = worker_python()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    builder = pyspark_sql.SparkSession.builder.appName("tests")
    builder = builder.remote(MASTER) if IS_CONNECT else builder.master(MASTER)
    for name, value in _settings(scratch).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if not IS_CONNECT:
        session.sparkContext.setLogLevel("OFF")
    if ARCHIVES:
        os.environ["PYTHONPATH"] = kept.get("PYTHONPATH", "")  # of controllers and brokers
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(kept)


def _settings(scratch: Path) -> dict[str, str]:
    of_session = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
    if IS_CONNECT:
        return of_session  # the rest is the server's
    settings = of_session | {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.stopTimeout": "30s",
    }
    if MASTER.startswith("local["):
        settings |= connector_settings()  # to compare with, where it is at hand
    if ARCHIVES:
        settings |= {"spark.archives": ARCHIVES, "spark.executor.memory": "600m", "spark.executor.cores": "1"}
    return settings


@pytest.fixture
def client(running_cluster: LocalCluster) -> Iterator[Client]:
    config = ClientConfig(bootstrap=parse_bootstrap(running_cluster.bootstrap_servers))
    with Client(config) as one:
        yield one
