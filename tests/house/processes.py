"""Measure what an installation costs: megabytes, and each process's start-up time and resident memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from localcluster.cluster import LocalCluster
from localcluster.processes import SupervisedProcess

MB = 1_000_000
#: Measured beside those of a cluster: a command that asks for nothing.
COMMAND = ("springtide", "--version")


def wheel_mb() -> float:
    """Return the megabytes of the wheel that pip builds of this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        command = (
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            ".",
        )
        subprocess.run(command, check=True)
        return sum(wheel.stat().st_size for wheel in Path(folder).iterdir()) / MB


def installed_mb(*names: str) -> float:
    """Return the megabytes that these distributions, and what they need without an extra, take here."""
    found: dict[str, int] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        paths = [Path(str(one.locate_file(file))) for file in one.files or ()]
        found[name] = sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.exists())
        needed = map(Requirement, one.requires or ())
        wanted += [need.name for need in needed if need.marker is None or need.marker.evaluate({"extra": ""})]
    return sum(found.values()) / MB


def processes() -> dict[str, object]:
    """Start a cluster, and each of its processes once more: until it answers, and its memory then."""
    found: dict[str, object] = {}
    with LocalCluster(brokers=3, coordinators=1) as cluster:
        cluster.form()
        controller, broker = cluster.controllers[1], cluster.brokers[1]
        coordinator = next(iter(cluster.coordinators.values()))
        found |= _started_again("coordinator", coordinator.process, lambda: coordinator.is_listening)
        found |= _started_again("broker", broker.process, lambda: broker.is_listening)
        found |= _started_again("controller", controller.process, lambda: controller.readiness() is not None)
    began = time.monotonic()
    subprocess.run((sys.executable, "-m", *COMMAND), check=True, stdout=subprocess.DEVNULL)
    return {**found, f"seconds of `{' '.join(COMMAND)}`": round(time.monotonic() - began, 2)}


def _started_again(name: str, process: SupervisedProcess, is_ready: object) -> dict[str, object]:
    assert callable(is_ready)
    process.stop()
    began = time.monotonic()
    process.start()
    process.wait_ready(is_ready)
    seconds = time.monotonic() - began
    pages = int(Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1])
    return {
        f"seconds until a {name} answers": round(seconds, 2),
        f"MB of memory of a {name}": round(pages * os.sysconf("SC_PAGE_SIZE") / MB),
    }


def installation(requirements: list[str]) -> dict[str, object]:
    return {
        "MB of the wheel": round(wheel_mb(), 2),
        "MB of what it needs, installed": round(installed_mb(*requirements)),
    }
