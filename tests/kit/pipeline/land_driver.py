"""`pipeline land` as a process with a Spark of its own, killed when its table looks a certain way."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from tests.kit.pipeline.land_world import data_files

ROOT = Path(__file__).resolve().parents[3]
POLL_SECONDS = 0.002
SECONDS_MAX = 240.0
HAS_DELTA = importlib.util.find_spec("deltalake") is not None


class Moment:
    """A step of a batch, recognised by what stands in the table. `is_there` is given the table, the batch
    that was due at the start, and how many files had names then."""

    def __init__(self, name: str, is_there: Callable[[Path, int, int], bool]) -> None:
        self.name = name
        self.is_there = is_there

    def __repr__(self) -> str:
        return self.name


def _own(dest: Path, batch: int, kind: str) -> Path:
    return dest / "_springtide" / "batches" / f"{batch:020d}.{kind}.json"


MOMENTS = (
    Moment("table made", lambda dest, _, __: (dest / "_springtide" / "table.json").exists()),
    Moment("planned", lambda dest, batch, _: _own(dest, batch, "plan").exists()),
    Moment("files begun", lambda dest, batch, _: any((dest / f"_springtide/aside/{batch}").glob("*"))),
    Moment("a file named", lambda dest, _, named: len(data_files(dest)) > named),
    Moment("some files named", lambda dest, _, named: len(data_files(dest)) > named + 3),
    Moment("a manifest", lambda dest, batch, _: _own(dest, batch, "manifest").exists()),
    Moment("the next plan", lambda dest, batch, _: _own(dest, batch + 1, "plan").exists()),
    Moment(
        "the next one's files",
        lambda dest, batch, _: any((dest / f"_springtide/aside/{batch + 1}").glob("*")),
    ),
)


class LandProcess:
    """A process of the job. Nothing of a run is left when it has ended."""

    def __init__(self, dest: Path, words: Sequence[str], log: Path) -> None:
        self.dest = dest
        self._words = [sys.executable, "-m", "pipeline", "land", *words, "--master", "local[2,4]"]
        self._words += ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
        self._words += ["--delta"] if HAS_DELTA else []
        self._log = log

    def run(self, moment: Moment | None = None) -> bool:
        """Run the job to its end, or until the moment has come and it was killed. Return whether it was
        killed."""
        batch, named = self._batches(), len(data_files(self.dest)) if self.dest.exists() else 0
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._words, cwd=ROOT, stdout=log, stderr=log, start_new_session=True, env=dict(os.environ)
            )
            deadline = time.monotonic() + SECONDS_MAX
            try:
                while process.poll() is None:
                    assert time.monotonic() < deadline, f"no end: {self._log.read_text()[-2000:]}"
                    if moment is not None and moment.is_there(self.dest, batch, named):
                        return True
                    time.sleep(POLL_SECONDS)
                assert process.returncode == 0, self._log.read_text()[-2000:]
                return False
            finally:
                self._kill(process)

    def _batches(self) -> int:
        batch = 0
        while _own(self.dest, batch, "manifest").exists():
            batch += 1
        return batch

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """The driver, its JVM and every worker, at once."""
        try:
            everybody = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            everybody = []
        for pid in (process.pid, *(one.pid for one in everybody)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        psutil.wait_procs(everybody, timeout=30)
