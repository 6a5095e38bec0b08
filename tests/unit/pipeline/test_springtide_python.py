"""The command for PYSPARK_PYTHON, beside a Python that tells how it was called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "pipeline" / "springtide-python"
ZIPS = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-src.zip:/spark/jars/spark-core_2.13-4.3.0.jar"


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (ZIPS, ""),
        (f"{ZIPS}:/mine:/other", "/mine:/other"),
        (f"/before:{ZIPS}:/mine", "/mine"),
        ("/mine:/other", "/mine:/other"),
        ("", ""),
    ],
)
def test_python_is_run_without_sparks_zips_on_its_path(tmp_path: Path, path: str, left: str) -> None:
    folder = tmp_path / "an environment" / "bin"
    folder.mkdir(parents=True)
    shutil.copy(SCRIPT, folder)
    python = folder / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n')
    python.chmod(0o755)
    told = subprocess.run(
        ["springtide-python", "-m", "pyspark.daemon", "a b"],
        env={"PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == f"{left}\n-m\npyspark.daemon\na b\n"
