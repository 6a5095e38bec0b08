"""Jobs as processes, each with a Spark of its own: what a person sees of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from localcluster.cluster import LocalCluster
from localcluster.java import find_java
from pipeline.client.client import Client
from pipeline.client.values import TopicPartition
from springtide.wire.records import NewRecord, encode_batch

pytestmark = [pytest.mark.timeout(400)]
PARTITIONS, BATCHES, RECORDS = 3, 10, 100
FIRST_MS = 1_700_000_000_000


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


def pipeline(cluster: LocalCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, which must be a success."""
    java = str(find_java().executable.resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *words, "--bootstrap-server", cluster.bootstrap_servers],
        env={**os.environ, "JAVA_HOME": java},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_no_traceback_follows_a_result(running_cluster: LocalCluster, orders: str) -> None:
    done = pipeline(running_cluster, "verify", orders, "--master", "local[2]")
    assert "nothing is wrong" in done.stdout
    assert "Traceback" not in done.stderr
