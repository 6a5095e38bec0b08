"""Brokers and a Spark on this machine for the pipeline's benchmarks, and who used how much processor time.

Brokers, JVM, planner and workers share the machine's processors, so a rate by the clock says as much about
the machine as about the code. Processor time by role stands beside it: of Spark's JVM, of its Python
workers, of the brokers.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow as pa

from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.values import LATEST, TopicPartition
from pipeline.jobs.session import make_session, worker_python
from tests.pipeline_proof.connector import connector_settings

SLOTS = 2
BROKERS = 3
ROOT = Path(__file__).resolve().parents[1]
_GB = 1e9
NOW_MS = 1_700_000_000_000
SEED = 5
VALUE_SPREAD = 0.3
VOCABULARY = 4096


def make_rows(record_bytes: int, *, total_bytes: int) -> pa.RecordBatch:
    """Return rows of keys, ascending times and text that compresses to about a third, its sizes 30 % up and
    down: the same on every machine."""
    rng = random.Random(SEED)
    letters = b"etaoinshrdlucmfwypvbgkjqxz"
    words = [bytes(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(VOCABULARY)]
    text = b" ".join(rng.choices(words, k=200_000))
    values: list[bytes] = []
    size = 0
    while size < total_bytes:
        length = int(record_bytes * rng.uniform(1 - VALUE_SPREAD, 1 + VALUE_SPREAD))
        start = rng.randrange(len(text) - length)
        values.append(text[start : start + length])
        size += length
    times = pa.array([(NOW_MS + index) * 1000 for index in range(len(values))], pa.int64())
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%08d" % index for index in range(len(values))], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": times.cast(pa.timestamp("us", tz="UTC")),
        }
    )


class Spent(NamedTuple):
    """Seconds of the clock, and of processors by role. Differences of two readings, or a reading."""

    wall_s: float
    jvm_s: float
    workers_s: float
    brokers_s: float

    def since(self, earlier: Spent) -> Spent:
        return Spent(*(now - then for now, then in zip(self, earlier, strict=True)))

    @property
    def spark_s(self) -> float:
        """Of an executor: its JVM and its workers."""
        return self.jvm_s + self.workers_s

    @property
    def cpu_s(self) -> float:
        return self.spark_s + self.brokers_s


class SparkSide:
    """One session beside one cluster of brokers."""

    def __init__(self, spark: Any, cluster: LocalCluster, client: Client, scratch: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.client = client
        self.scratch = scratch
        self._jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
        self._brokers = [psutil.Process(broker.process.pid) for broker in cluster.brokers.values()]

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def spent(self) -> Spent:
        """A worker that has ended counts with the process that forked it, or, like the Pythons that plan, as
        a child of the JVM's."""
        jvm_s, ended_s = _seconds(self._jvm)
        workers = [sum(_seconds(child)) for child in self._jvm.children(recursive=True)]
        return Spent(
            time.perf_counter(),
            jvm_s,
            ended_s + sum(workers),
            sum(sum(_seconds(broker)) for broker in self._brokers),
        )

    def create_topic(self, topic: str, *, partitions: int, replication_factor: int = 1) -> None:
        """Kept for good: records whose timestamps lie years back would go at the first look of retention."""
        self.cluster.create_topic(
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs={"retention.ms": "-1"},
        )

    def ends(self, topic: str, partitions: int) -> dict[TopicPartition, int]:
        where = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = self.client.list_offsets(dict.fromkeys(where, LATEST))
        return {each: found[each].offset for each in where}

    def reader(self, topic: str, *, format_name: str = "springtide", **options: str) -> Any:
        reader = self.spark.read.format(format_name).option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", topic).options(**options).load()

    def stream(self, topic: str, *, format_name: str = "springtide", **options: str) -> Any:
        reader = self.spark.readStream.format(format_name).option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", topic).options(**options).load()


def _seconds(process: psutil.Process) -> tuple[float, float]:
    """(its own, those of children that have ended and been waited for); none of one that is gone."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0, 0.0
    return times.user + times.system, times.children_user + times.children_system


@contextmanager
def spark_side() -> Iterator[SparkSide]:
    """With `format("kafka")` where Spark's own connector is at hand."""
    os.environ["JAVA_HOME"] = str(find_java().executable.resolve().parents[1])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is kept compiled
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-pipeline-")))
        cluster = stack.enter_context(LocalCluster(brokers=BROKERS, on_progress=tell))
        cluster.form()
        tell("starting Spark")
        session = make_session(
            name="bench",
            master=f"local[{SLOTS}]",
            remote=None,
            settings={
                "spark.ui.enabled": "false",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.memory": "4g",
                "spark.local.dir": str(scratch / "local"),
                "spark.sql.warehouse.dir": str(scratch / "warehouse"),
                "spark.sql.shuffle.partitions": str(SLOTS),
                **connector_settings(),
                # Its consumers are kept: to close one takes half a second, and is not what is measured.
                "spark.kafka.consumer.cache.capacity": "10000",
            },
        )
        stack.callback(session.stop)
        config = ClientConfig(bootstrap=parse_bootstrap(cluster.bootstrap_servers))
        client = stack.enter_context(Client(config))
        yield SparkSide(session, cluster, client, scratch)


def tell(line: str) -> None:
    """Progress; standard output is for the table."""
    print(line, file=sys.stderr, flush=True)


def per_gb(seconds: float, payload_bytes: int) -> float:
    return seconds / (payload_bytes / _GB)
