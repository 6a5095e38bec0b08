"""The Spark session of a job: made with our defaults, or the one that spark-submit has configured.

pipeline land --master local[4] ...       ours; --conf overrides a default
spark-submit --master yarn ... land ...   spark-submit's settings win over ours, too
pipeline land --remote sc://host ...      Spark Connect: the server's session, its settings are the server's
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pipeline.errors import JobError
from springtide.cli.call import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Final = MappingProxyType(
    {
        # Not spark.python.unix.domain.socket.enabled: it saves 15 ms a Python task, but on such a socket an
        # idle worker's last write fails when Spark closes it, and its traceback follows the job's result.
        # Timestamps and dates of folders mean the same wherever a job runs.
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }
)
#: Read by the driver's JVM as it starts: `spark.log.level` comes after a dozen lines.
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
MASTER_DEFAULT: Final = "local[*]"
#: Set by spark-submit for the Python process that it starts.
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
#: Spares each worker compiling PySpark; see the file of that name.
WORKER_COMMAND: Final = "springtide-python"
_NO_SPARK: Final = "PySpark is not installed"
_NO_JAVA: Final = "Spark needs Java 17 or newer"


def make_session(
    *, name: str, master: str | None, remote: str | None, settings: Mapping[str, str]
) -> SparkSession:
    """Return a session; settings are those of `--conf`. Raises JobError without PySpark or Java, UsageError
    for a contradiction."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - jobs without Spark must not need it
    except ImportError as error:
        raise JobError(f"{_NO_SPARK}: {error}", "pip install 'springtide[pipeline]'") from error
    if remote is not None:
        if master is not None:
            raise UsageError("--remote names a Spark Connect server; --master is that server's")
        builder = SparkSession.builder.remote(remote).appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    wanted = dict(DEFAULTS) | dict(settings)
    if SUBMITTED in os.environ:
        if master is not None:
            raise UsageError("--master is spark-submit's: give it before the script's path")
        wanted = _unless_submitted(DEFAULTS) | dict(settings)
    else:
        wanted["spark.master"] = master or MASTER_DEFAULT
        told = wanted.get(JVM_OPTIONS, "")
        if "log4j" not in told:
            wanted[JVM_OPTIONS] = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {told}".rstrip()
        _check_java()
        if wanted["spark.master"].startswith("local"):
            # Workers are children of this process's JVM on this machine: this Python has what they need.
            os.environ.setdefault("PYSPARK_PYTHON", worker_python())
            os.environ.setdefault("PYSPARK_DRIVER_PYTHON", worker_python())
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def worker_python() -> str:
    """Return the command that runs Spark's workers on this machine: this Python, by `springtide-python` where
    that is installed beside it."""
    folder = Path(sys.executable).parent
    command, python = folder / WORKER_COMMAND, folder / "python"
    is_usable = os.access(command, os.X_OK) and python.exists() and python.samefile(sys.executable)
    return str(command) if is_usable else sys.executable


def _unless_submitted(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults that spark-submit's command line and files don't set."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    # Only a SparkConf backed by the JVM sees what spark-submit was told, and only this connects to it.
    SparkContext._ensure_initialized()
    told = SparkConf()
    return {key: value for key, value in defaults.items() if not told.contains(key)}


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    advice = "Install one (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it."
    if home:
        if not os.access(os.path.join(home, "bin", "java"), os.X_OK):  # noqa: PTH118 - as Spark joins it
            raise JobError(f"{_NO_JAVA}, and JAVA_HOME is {home}, where there is none", advice)
    elif shutil.which("java") is None:
        raise JobError(f"{_NO_JAVA}, and there is none on PATH", advice)
