"""Sparks whose executors are processes of their own, and the environment that is shipped to them.

Nothing of the checkout is on their path: what tasks import of ours comes out of the archive, which is made as
docs/pipeline.md says ("On a cluster"), or it is not there. Each place is what `--master` (or `--remote`) then
names, as on a real cluster.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from localcluster.java import find_java
from localcluster.ports import LOOPBACK, PortReservation, is_accepting
from localcluster.processes import ProcessCommand, SupervisedProcess
from tests.kit.pipeline.spark_jvm import SHORT_LIVED, linked_home

ROOT = Path(__file__).resolve().parents[3]
LOCAL_CLUSTER = "local-cluster[2,1,700]"
EXECUTOR_MEMORY = "600m"
WORKER_MEMORY = "700m"
WORKER_ADDRESSES = ("127.0.0.2", "127.0.0.3")
"""Two hosts, as far as Spark can tell."""
WORKERS_FOLDER = "work"
"""Below a Spark home: a folder for each application and executor."""
ENVIRONMENT = "env"
PYTHON = f"{ENVIRONMENT}/bin/python"
"""Relative: in the driver's folder it is the driver's copy, in an executor's its own."""
KILLS_CHILDREN = "test_workers_that_are_killed"
"""Finds workers among this process's children, where they are only as long as Spark is this process's."""
READY_SECONDS_MAX = 120.0

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
}


@dataclass(frozen=True)
class Shipped:
    """A driver's folder: in it `env/`, where the archive was unpacked, and a Spark home."""

    folder: Path
    archive: Path
    spark_home: Path

    @property
    def archives(self) -> str:
        """Return the value of --archives."""
        return f"{self.archive}#{ENVIRONMENT}"

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that starts a JVM here. PYTHONPATH is empty: Spark would ship
        the driver's."""
        return {
            "JAVA_HOME": str(find_java().executable.resolve().parents[1]),
            "SPARK_HOME": str(self.spark_home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": PYTHON,
            "PYTHONPATH": "",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }

    def submit(self, arguments: Sequence[str], *, seconds_max: float) -> subprocess.CompletedProcess[str]:
        """spark-submit on local-cluster, started in the driver's folder."""
        settings = [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
        return subprocess.run(
            [
                str(self.spark_home / "bin/spark-submit"),
                *("--master", LOCAL_CLUSTER, "--archives", self.archives, *settings, *arguments),
            ],
            cwd=self.folder,
            env={**os.environ, **self.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )


def ship(folder: Path) -> Shipped:
    """Make a virtual environment where the driver will look, and the archive of it. What pip would install
    beside our packages is that of the Python that runs the tests."""
    archive, environment = folder / "env.tar.gz", folder / ENVIRONMENT
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    there = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    for package in ("pipeline", "pyspark_springtide", "springtide"):
        shutil.copytree(ROOT / package, there / package, ignore=shutil.ignore_patterns("__pycache__"))
    (there / "required.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    subprocess.run(["tar", "czf", str(archive), "-C", str(environment), "."], check=True)
    # local-cluster's workers write below it, and not into PySpark's.
    return Shipped(folder, archive, linked_home(folder / "spark", without=WORKERS_FOLDER))


@contextmanager
def standalone(shipped: Shipped) -> Iterator[str]:
    """A master and two workers, each a process, each worker on an address of its own. The master's URL."""
    with PortReservation() as ports, ExitStack() as stack:
        port = ports.reserve_free()
        url = f"spark://{LOOPBACK}:{port}"
        where = ["--host", LOOPBACK, "--port", str(port), "--webui-port", "0"]
        _start(stack, shipped, "master", LOOPBACK, where, wait_for=port)
        for address in WORKER_ADDRESSES:
            work = str(shipped.folder / f"work-{address}")
            where = ["--host", address, "--webui-port", "0", "--work-dir", work]
            _start(
                stack, shipped, "worker", address, [*where, "--cores", "1", "--memory", WORKER_MEMORY, url]
            )
        yield url


def _start(
    stack: ExitStack,
    shipped: Shipped,
    role: str,
    address: str,
    arguments: Sequence[str],
    *,
    wait_for: int | None = None,
) -> None:
    main = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
    process = SupervisedProcess(
        f"Spark's {role} on {address}",
        ProcessCommand(
            [str(shipped.spark_home / "bin/spark-class"), main, *arguments],
            shipped.folder,
            {**shipped.environment(), "SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "256m"},
        ),
        shipped.folder / f"{role}-{address}.log",
    )
    process.start()
    stack.callback(process.stop)
    if wait_for is not None:
        process.wait_ready(lambda: is_accepting(wait_for), timeout_seconds=READY_SECONDS_MAX)


@contextmanager
def connect_server(shipped: Shipped) -> Iterator[str]:
    """A Spark Connect server over local-cluster. The URL for --remote.

    Its sessions' workers start in a folder of their session, where a relative path leads nowhere: here the
    environment stands at the same path on all hosts, as in an image, and is not shipped.
    """
    with PortReservation() as ports, ExitStack() as stack:
        port = ports.reserve_free()
        settings = {
            **SETTINGS,
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
        }
        process = SupervisedProcess(
            "Spark's Connect server",
            ProcessCommand(
                [
                    str(shipped.spark_home / "bin/spark-submit"),
                    *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                    *("--master", LOCAL_CLUSTER, "--name", "connect"),
                    *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
                ],
                shipped.folder,
                {**shipped.environment(), "PYSPARK_PYTHON": str(shipped.folder / PYTHON)},
            ),
            shipped.folder / "connect.log",
        )
        process.start()
        stack.callback(process.stop)
        process.wait_ready(lambda: is_accepting(port), timeout_seconds=READY_SECONDS_MAX)
        yield f"sc://{LOOPBACK}:{port}"


def run_tests(
    shipped: Shipped, files: Sequence[str], *, place: Mapping[str, str], report: Path, seconds_max: float
) -> subprocess.CompletedProcess[str]:
    """Run these test files with their Spark in another place: `place` is what conftest.py reads of the
    environment. The driver is this Python; its workers and the executors' are the archive's."""
    return subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-c",
                str(ROOT / "pyproject.toml"),
                "--rootdir",
                str(ROOT),
            ),
            *("-p", "no:cacheprovider", "--junit-xml", str(report), "-k", f"not {KILLS_CHILDREN}"),
            *(str(ROOT / file) for file in files),
        ],
        cwd=shipped.folder,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYSPARK_DRIVER_PYTHON"},
            **{name: value for name, value in shipped.environment().items() if name != "PYTHONPATH"},
            **place,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )
