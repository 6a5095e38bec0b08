"""Try a wheel where nothing else is: `python packaging/try_wheel.py WHEEL --python python3.13 [--lend DIR]`.

It makes a virtual environment of that Python in a folder of its own, installs what requirements.lock names
and the wheel, and works from another folder: each program starts, a cluster of all processes runs, and the
command line makes a topic in it. `--lend` names a site-packages whose PySpark, py4j, NumPy and pyarrow are
used instead of 700 MB from the index. If they are of that Python, Spark writes records, and a job lands them.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = ("controller", "coordinator", "dataplane", "localcluster", "springtide", "pipeline")
#: Python alone: good for every release of it.
LENT_TO_ALL = ("pyspark", "py4j")
LENT_TO_ITS_OWN = ("numpy", "numpy.libs", "pyarrow", "pyarrow.libs")
RECORDS = 1_000
UP_SECONDS_MAX = 120.0

WRITES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(int(sys.argv[2])).selectExpr("cast(id as string) as key", "cast(id as string) as value")
options = {"kafka.bootstrap.servers": sys.argv[1], "topic": "tried", "checkpointLocation": sys.argv[3]}
rows.write.format("springtide").mode("append").options(**options).save()
"""


class TryFailed(Exception):
    """The wheel does not do what it should; the message says what was asked and what was answered."""


class Tried:
    """An environment that has the wheel and its requirements only, in `folder`. python: the interpreter."""

    def __init__(self, wheel: Path, python: Path, folder: Path) -> None:
        self._folder = folder
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        self.programs = folder / "env/bin"
        self.run(str(python), "-m", "venv", str(folder / "env"))
        pip = (
            str(self.programs / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        )
        self.run(*pip, "--require-hashes", "-r", str(ROOT / "requirements.lock"))
        self.run(*pip, "--no-deps", str(wheel.absolute()))
        told = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_path('purelib'))"
        self.version, site_packages = self.run(str(self.programs / "python"), "-c", told).split()
        self.site_packages = Path(site_packages)

    def run(self, *command: str, seconds_max: float = 300.0) -> str:
        """Return what it printed. Raise TryFailed."""
        done = subprocess.run(
            command,
            cwd=self.elsewhere,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds_max,
        )
        if done.returncode:
            raise TryFailed(f"{' '.join(command)}: {(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    def program(self, name: str, *arguments: str) -> str:
        return self.run(str(self.programs / name), *arguments)

    def environment(self) -> dict[str, str]:
        """Return that of a shell in which this environment is active, and no other."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))
        }
        return {**kept, "PATH": f"{self.programs}{os.pathsep}{kept['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}

    def lend(self, names: Sequence[str], from_: Path) -> None:
        for name in names:
            if (from_ / name).exists():
                (self.site_packages / name).symlink_to(from_ / name)


def try_programs(tried: Tried, version: str) -> None:
    for program in PROGRAMS:
        tried.program(program, "--help")
    for program in ("springtide", "pipeline"):
        told = tried.program(program, "--version")
        if version not in told:
            raise TryFailed(f"{program} --version says {told!r}, not {version}")
    tried.run(
        str(tried.programs / "python"), "-c", "import springtide.native._records, springtide.native._requests"
    )


def try_cluster(tried: Tried, *, with_spark: bool, say: Say) -> None:
    log = tried.elsewhere / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            [str(tried.programs / "localcluster"), "up", "--directory", str(tried.elsewhere / "cluster")],
            cwd=tried.elsewhere,
            env=tried.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + UP_SECONDS_MAX
        while "Springtide is up" not in log.read_text():
            if up.poll() is not None or time.monotonic() > deadline:
                raise TryFailed(f"localcluster up: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        say("a cluster runs")
        (controller,) = re.findall(r"REST and Swagger UI +(\S+)/docs", log.read_text())
        (brokers,) = re.findall(r"Kafka brokers +(\S+)", log.read_text())
        url = ("--url", controller)
        tried.program("springtide", "topics", "create", "tried", "--partitions", "2", *url)
        if "tried" not in tried.program("springtide", "topics", "list", *url):
            raise TryFailed("springtide topics list does not show the topic")
        if with_spark:
            checkpoint = str(tried.elsewhere / "checkpoint")
            python = str(tried.programs / "python")
            tried.run(python, "-c", WRITES, brokers, str(RECORDS), checkpoint)
            say("Spark has written")
            land = ("land", "tried", str(tried.elsewhere / "lake"), "--bootstrap-server", brokers)
            landed = tried.program("pipeline", *land, "--engine", "local", "--output", "json", *url)
            if f'"records":{RECORDS}' not in landed.replace(" ", ""):
                raise TryFailed(f"pipeline land: {landed}")
            say("a job has landed it")
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(UP_SECONDS_MAX)
    if up.returncode:
        raise TryFailed(f"localcluster up ended with {up.returncode}: {log.read_text()[-2000:]}")


class Say:
    """Print a line with the seconds since the beginning."""

    def __init__(self, about: str) -> None:
        self._about, self._began = about, time.monotonic()

    def __call__(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:4.0f} s  {self._about}: {what}", flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Try a wheel where nothing else is.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument(
        "--lend", type=Path, help="a site-packages with PySpark; without it no cluster is started"
    )
    chosen = parser.parse_args(arguments)
    version = chosen.wheel.name.split("-")[1]
    say = Say(f"{chosen.wheel.name} on {chosen.python}")
    with tempfile.TemporaryDirectory(prefix="springtide-tried-") as folder:
        try:
            tried = Tried(chosen.wheel, chosen.python, Path(folder))
            say("installed")
            try_programs(tried, version)
            say("each program starts")
            if chosen.lend is not None:
                tried.lend(LENT_TO_ALL, chosen.lend)
                is_its_own = f"python{tried.version}" in chosen.lend.parts
                if is_its_own:
                    tried.lend(LENT_TO_ITS_OWN, chosen.lend)
                try_cluster(tried, with_spark=is_its_own, say=say)
        except TryFailed as error:
            print(f"try_wheel: {error}", file=sys.stderr)
            return 1
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
