"""Where tasks run, when the session's Spark is in another place (spark_places.py): not here, and with
nothing of this checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pipeline.conftest import ARCHIVES, IS_CONNECT, ROOT

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not ARCHIVES, reason="only where executors are processes of their own"),
]
EXECUTORS = 2
ROUNDS_MAX = 10
"""On a busy machine the second executor comes when the first has done everything."""


def test_tasks_run_in_two_executors_with_what_the_archive_holds(spark: Any) -> None:
    from pyspark.sql.functions import col, udf

    def place(number: int) -> str:
        import time

        import numpy as np
        import pyarrow as pa

        from pipeline.source import reading

        time.sleep(0.2)  # so that one executor does not take all the tasks while the other asks
        executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1])
        command = Path(f"/proc/{executor}/cmdline").read_bytes().split(b"\0")
        return json.dumps(
            {
                "executor": executor,
                "main": next(part.decode() for part in command if part.startswith(b"org.apache.spark.")),
                "folder": str(Path.cwd()),
                "files": [module.__file__ for module in (np, pa, reading)],
                "number": number,
            }
        )

    asked = spark.range(0, 16, 1, 8).select(udf(place, useArrow=False)(col("id")).alias("told"))
    for _ in range(ROUNDS_MAX):
        told = [json.loads(row["told"]) for row in asked.collect()]
        if len({one["executor"] for one in told}) == EXECUTORS:
            break
    assert sorted(one["number"] for one in told) == list(range(16))
    assert len({one["executor"] for one in told}) == len({one["folder"] for one in told}) == EXECUTORS
    assert {one["main"] for one in told} == {"org.apache.spark.executor.CoarseGrainedExecutorBackend"}
    for one in told:
        home = Path.cwd() if IS_CONNECT else Path(one["folder"])
        for file in one["files"]:
            assert not Path(file).is_relative_to(ROOT)
            assert home / "env" in Path(one["folder"], file).parents, "an executor has a copy of its own"
