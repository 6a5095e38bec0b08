"""Which cells of the matrix are failures of ours, and which could not be tried at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest

from tests.interop.__main__ import SPRINGTIDE, failures_of_ours
from tests.interop.checks import NotAsAsked, Reference
from tests.interop.clients import Driver
from tests.interop.drivers.answer import NotHere
from tests.interop.drivers.java_tools import JavaTools
from tests.interop.matrix import Cell, Matrix, RunningDriver, Side, State
from tests.interop.rows import ROWS

KAFKA = "Apache Kafka 4.4.0"
CONNECT = ROWS[0]


@pytest.mark.parametrize(
    ("here", "there", "is_ours"),
    [
        ("ok", "failed", False),
        ("failed", "ok", True),
        ("failed", "failed", False),
        ("failed", "missing", True),
        ("failed", None, True),
    ],
)
def test_a_failure_is_ours_where_kafka_has_none(here: State, there: State | None, is_ours: bool) -> None:
    cells = [Cell(SPRINGTIDE, "kcat", "connect", here)]
    if there is not None:
        cells.append(Cell(KAFKA, "kcat", "connect", there))
    assert failures_of_ours(cells) == ([("kcat", "connect")] if is_ours else [])


def test_a_worker_without_the_connectors_jar_is_missing(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    for name in ("kafka-tools-4.4.0", "kafka-clients-4.4.0", "connect-runtime-4.4.0", "connect-file-4.3.1"):
        (tmp_path / "libs" / f"{name}.jar").touch()
    with pytest.raises(NotHere, match=r"has no connect-file-4\.4\.0\.jar$"):
        JavaTools(tmp_path).copy_lines({})
    told = 'input(); print(\'{"missing": "no jar"}\', flush=True); input()'
    with RunningDriver(Driver([sys.executable, "-c", told]), tmp_path / "log") as running:
        side, reference = Side(SPRINGTIDE, "127.0.0.1:1"), cast(Reference, None)
        filled = Matrix([], tmp_path, print)._fill(side, "java-tools", reference, CONNECT, "t", running)
    assert filled == ("missing", "no jar")


@pytest.mark.parametrize(
    ("client", "nodes", "is_right"),
    [("kcat", 3, True), ("kcat", 5, False), ("librdkafka", 5, True), ("librdkafka", 3, False)],
)
def test_each_client_has_its_own_number_of_nodes(client: str, nodes: int, is_right: bool) -> None:
    with Reference("127.0.0.1:1", coordinators=2) as reference:
        try:
            reference.check(CONNECT, client, "t", nodes)
        except NotAsAsked as wrong:
            assert not is_right
            assert str(wrong) == f"nodes: {nodes} instead of {8 - nodes}"
        else:
            assert is_right
