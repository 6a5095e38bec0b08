"""The matrix of `make interop`, as far as a commit's time goes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.interop.clients import Driver, clients
from tests.interop.matrix import DriverGone, Matrix, RunningDriver, Side
from tests.interop.rows import ROWS

pytestmark = [pytest.mark.timeout(300)]
PYTHON_CLIENTS = ("librdkafka", "kafka-python", "aiokafka")


def test_every_python_client_can_do_each_row(running_cluster: LocalCluster, tmp_path: Path) -> None:
    matrix = Matrix(ROWS, tmp_path, print)
    chosen = [client for client in clients(None) if client.name in PYTHON_CLIENTS]
    matrix.run(Side("Springtide", running_cluster.bootstrap_servers), chosen)
    assert [cell for cell in matrix.cells if cell.state not in ("ok", "waits")] == []
    assert set(matrix.versions) == set(PYTHON_CLIENTS)


def test_a_java_tool_lists_topics(running_cluster: LocalCluster, tmp_path: Path) -> None:
    home = os.environ.get("KAFKA_HOME")
    if not home:
        pytest.skip("KAFKA_HOME=DIR names no Apache Kafka")
    matrix = Matrix([row for row in ROWS if row.name == "list"], tmp_path, print)
    chosen = [client for client in clients(Path(home)) if client.name == "java-tools"]
    matrix.run(Side("Springtide", running_cluster.bootstrap_servers), chosen)
    assert [(cell.state, cell.detail) for cell in matrix.cells] == [("ok", "")]


def test_a_driver_that_does_not_answer_is_ended_and_started_anew(tmp_path: Path) -> None:
    stuck = "import os, sys; sys.stdin.readline(); os.path.exists(sys.argv[1]) or open(sys.argv[1], 'w'); "
    once = stuck + "print('{\"value\": 1}', flush=True) if os.path.getsize(sys.argv[1]) else sys.stdin.read()"
    mark = tmp_path / "mark"
    with RunningDriver(Driver([sys.executable, "-c", once, str(mark)]), tmp_path / "log") as running:
        with pytest.raises(DriverGone, match=r"no answer in 1 s"):
            running.ask({"call": "connect"}, seconds=1)
        mark.write_text("again", encoding="utf-8")
        assert running.ask({"call": "connect"}) == {"value": 1}


def test_the_error_of_a_driver_that_ends_is_told(tmp_path: Path) -> None:
    driver = Driver([sys.executable, "-c", "raise SystemExit('no such library')"])
    with (
        RunningDriver(driver, tmp_path / "log") as running,
        pytest.raises(DriverGone, match="no such library"),
    ):
        running.ask({"call": "connect"})
