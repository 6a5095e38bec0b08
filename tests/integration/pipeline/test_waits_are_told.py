"""Jobs as processes that wait for a cluster or a topic: they say soon for what. `land` was silent for two
minutes at a wrong port, `replay` for twenty seconds at a missing topic."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK, PortReservation

SECONDS_MAX = 5.0
"""A second, and what a busy machine adds to it."""
LOADED = """
import pipeline.land.job, pipeline.replay.job, sys
from pipeline.jobs.cli import main
print("loaded", file=sys.stderr, flush=True)
sys.exit(main())
"""
"""What the command does, after a line that does not count Python's imports."""


def told_first(*words: str) -> str:
    """Return the first line of a job, which must still run."""
    with subprocess.Popen(
        [sys.executable, "-c", LOADED, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stderr is not None
        try:
            assert job.stderr.readline() == "loaded\n"
            began = time.monotonic()
            line = job.stderr.readline()
            assert time.monotonic() - began < SECONDS_MAX
            assert job.poll() is None, line
        finally:
            job.terminate()
    return line


@pytest.mark.timeout(60)
def test_land_says_that_nothing_listens_at_the_address(tmp_path: Path) -> None:
    with PortReservation() as ports:
        address = f"{LOOPBACK}:{ports.reserve_free()}"
        line = told_first("land", "orders", str(tmp_path / "lake"), "--bootstrap-server", address)
    assert f"{address}: [Errno 111] Connection refused" in line
    assert "gives_up_after_s=120" in line


@pytest.mark.timeout(120)
def test_replay_says_that_the_topic_is_missing(running_cluster: LocalCluster, tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": [b"1"]}), tmp_path / "lake.parquet")
    line = told_first(
        *(
            "replay",
            str(tmp_path / "lake.parquet"),
            "not-there",
            "--checkpoint",
            str(tmp_path / "checkpoint"),
        ),
        *("--bootstrap-server", running_cluster.bootstrap_servers),
    )
    assert "not-there" in line
    assert "gives_up_after_s=" in line
