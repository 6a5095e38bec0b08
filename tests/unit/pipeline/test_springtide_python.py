"""The command for PYSPARK_PYTHON, beside a Python that tells how it was called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "pipeline" / "springtide-python"
ZIPS = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-src.zip:/spark/jars/spark-core_2.13-4.3.0.jar"


@pytest.mark.parametrize(
    ("installed", "path", "left"),
    [
        ("4.3.0", ZIPS, ""),
        ("4.3.0", f"{ZIPS}:/mine:/other", "/mine:/other"),
        ("4.3.0", f"/before:{ZIPS}:/mine", "/mine"),
        ("4.3.0", "/mine:/other", "/mine:/other"),
        ("4.3.0", "", ""),
        ("4.2.0", f"{ZIPS}:/mine", f"{ZIPS}:/mine"),
        (None, f"{ZIPS}:/mine", f"{ZIPS}:/mine"),
    ],
)
def test_python_is_run_without_sparks_zips_where_the_same_pyspark_is_installed(
    tmp_path: Path, installed: str | None, path: str, left: str
) -> None:
    folder = tmp_path / "an environment" / "bin"
    folder.mkdir(parents=True)
    shutil.copy(SCRIPT, folder)
    if installed is not None:
        (folder.parent / f"lib/python3.11/site-packages/pyspark-{installed}.dist-info").mkdir(parents=True)
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
