"""Spark finds `format("springtide")` wherever Python starts, after either way to install the project.

Each virtual environment here has the project installed by pip; what the project requires is that of the
Python that runs the tests, by a line in a .pth file, so PySpark is not downloaded again. Neither the checkout
nor PYTHONPATH helps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from localcluster.java import find_java
from tests.kit.image import copy_context
from tests.kit.pipeline.spark_jvm import DRIVER_ENVIRONMENT
from tests.pipeline_proof.contract.world import make_world

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SECONDS_MAX = 300
NO_INDEX = "No matching distribution found for setuptools"

READS = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.log.level", "ERROR").getOrCreate()
)

def count():
    options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "orders-a"}
    return spark.read.format("springtide").options(**options).load().count()

found = count()
from pyspark_springtide import DefaultSource  # the fallback of docs/pipeline.md

spark.dataSource.register(DefaultSource)
print("COUNTS", found, count())
spark.stop()
"""


def install(words: list[str], into: Path) -> Path:
    """Make a virtual environment, install the project without what it requires, and return its programs'
    folder. Skip the test without a package index: pip builds with a setuptools of its own."""
    venv = into / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=SECONDS_MAX)
    here = sysconfig.get_path("purelib")
    there = sysconfig.get_path("purelib", vars={"base": str(venv)})
    Path(there, "zz_required.pth").write_text(f"{here}\n", encoding="utf-8")
    done = subprocess.run(
        [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--no-deps", *words],
        env=clean_environment(venv / "bin"),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    if NO_INDEX in done.stderr and not os.environ.get("CI_REQUIRED"):
        pytest.skip("there is no package index to build with")
    assert done.returncode == 0, done.stderr
    return venv / "bin"


def clean_environment(programs: Path) -> Mapping[str, str]:
    """Return the environment as in a shell where the virtual environment is activated."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "COV_"))
    }
    java_home = str(find_java().executable.resolve().parents[1])
    path = os.pathsep.join([str(programs), kept.get("PATH", os.defpath)])
    return {**kept, **DRIVER_ENVIRONMENT, "PATH": path, "JAVA_HOME": java_home, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.parametrize("words", [["--editable"], []], ids=["editable", "wheel"])
def test_spark_finds_the_source_in_any_folder(words: list[str], tmp_path: Path) -> None:
    programs = install([*words, str(copy_context(tmp_path))], tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "reads.py").write_text(READS, encoding="utf-8")
    world = make_world()
    with world.server:
        done = subprocess.run(
            [str(programs / "python"), "reads.py", world.bootstrap],
            cwd=elsewhere,
            env=clean_environment(programs),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
    assert "COUNTS 50 50" in done.stdout, done.stderr[-3_000:]
    assert "Traceback" not in done.stderr
