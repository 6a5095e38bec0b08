"""The documents' walks, typed as they stand, at ports and in a folder that are free here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster.ports import PortReservation, PortTaken

ROOT = Path(__file__).parents[2]
START_SECONDS_MAX = 90.0
PORTS = 100
STARTED = re.compile(r"nothing has been created|Springtide is up")


def needs(*commands: str) -> pytest.MarkDecorator:
    """Return the mark of tests that type these commands, which only root can install."""
    missing = [command for command in commands if shutil.which(command) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {' '.join(missing)}")


def blocks(page: str, heading: str) -> list[str]:
    """Return the shell blocks of a page below the heading, up to the next heading of the second level."""
    text = "\n" + (ROOT / page).read_text(encoding="utf-8")
    section = text.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """The ports and the folder of this walk, in the place of those in the document."""

    base: int
    folder: Path

    def here(self, text: str) -> str:
        moved = re.sub(r"\b808(\d)\b", lambda found: str(self.base + 20 + int(found[1])), text)
        # 9091, too: a broker's port is also reckoned from its id.
        moved = re.sub(r"\b909([1-9])\b", lambda found: str(self.base + 40 + int(found[1]) - 2), moved)
        return moved.replace("build/", f"{self.folder}/")

    @property
    def url(self) -> str:
        return f"http://localhost:{self.base + 20}"


@contextmanager
def up(first_block: str, folder: Path) -> Iterator[tuple[Place, Path]]:
    """Runs the `make up` that the walk begins with; yields where it is, and what it prints.

    It ends on Ctrl-C and leaves nothing running.
    """
    make, what, *arguments = shlex.split(first_block, comments=True)
    assert (make, what) == ("make", "up")
    (argument,) = arguments
    name, _, words = argument.partition("=")
    assert name == "UP_ARGS"
    place = Place(_free_base(), folder)
    log = folder / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "localcluster", "up", "--port-base", str(place.base)),
                *shlex.split(place.here(words)),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not STARTED.search(log.read_text()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield place, log
    finally:
        process.terminate()
        process.wait(timeout=60)


def typed(script: str, *, before: str = "", seconds_max: float) -> subprocess.CompletedProcess[str]:
    """Run the block as typed, except that a failure ends it. before: lines for the terminal's habits."""
    here = str(Path(sys.executable).parent)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{before}\n{script}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
        env={**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"},
    )


def _free_base() -> int:
    """Return the first of a hundred ports that are free right now. Walks of several processes, which begin at
    once, look for them from places of their own."""
    bases = range(20_000, 32_000, PORTS)
    for number in range(os.getpid(), os.getpid() + len(bases)):
        base = bases[number % len(bases)]
        with PortReservation() as ports:
            try:
                for port in range(base, base + PORTS):
                    ports.reserve(port)
            except PortTaken:
                continue
            return base
    raise AssertionError("no hundred free ports in a row")
