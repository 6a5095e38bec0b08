"""The README's four calls, typed as they stand: create a cluster, a topic, add brokers, take one offline."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from localcluster.ports import PortReservation, PortTaken

pytestmark = [pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
HEADING = "## The four calls"
START_SECONDS_MAX = 90.0
WALK_SECONDS_MAX = 180.0
PORTS = 100


def blocks() -> list[str]:
    """The shell blocks below the heading, up to the next one."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split(f"\n{HEADING}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the walk goes here, instead of the ports and the folder that stand in the README."""

    base: int
    folder: Path

    def here(self, text: str) -> str:
        moved = re.sub(r"\b808(\d)\b", lambda found: str(self.base + 20 + int(found[1])), text)
        moved = re.sub(r"\b909([2-9])\b", lambda found: str(self.base + 40 + int(found[1]) - 2), moved)
        return moved.replace("build/walk", str(self.folder))

    @property
    def url(self) -> str:
        return f"http://localhost:{self.base + 20}"


def free_base() -> int:
    """Where a hundred ports are free right now."""
    for base in range(20_000, 32_000, PORTS):
        with PortReservation() as ports:
            try:
                for port in range(base, base + PORTS):
                    ports.reserve(port)
            except PortTaken:
                continue
            return base
    raise AssertionError("no hundred free ports in a row")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """What the first block starts; it ends on Ctrl-C and leaves nothing running."""
    started, *_ = blocks()
    make, up, argument, *_ = shlex.split(started, comments=True)
    assert (make, up) == ("make", "up")
    name, _, arguments = argument.partition("=")
    assert name == "UP_ARGS"
    found = Place(free_base(), tmp_path / "walk")
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "localcluster", "up", "--port-base", str(found.base)),
                *shlex.split(found.here(arguments)),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while "nothing has been created" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield found
    finally:
        process.terminate()
        process.wait(timeout=60)
    assert "broker 1 was stopped" in log.read_text()


def test_the_four_calls_work_as_they_are_written(place: Place) -> None:
    _, *walk = blocks()
    script = place.here("\n".join(walk))
    typed = subprocess.run(
        # As typed, but a refusal ends it.
        [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            f'curl() {{ command curl -sS --fail-with-body "$@"; echo; }}\n{script}',
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WALK_SECONDS_MAX,
        check=False,
    )
    told = typed.stdout + typed.stderr
    assert typed.returncode == 0, told
    # The last line counts what a consumer reads after everything.
    written = int(re.findall(r"^seq (\d+)", script, re.MULTILINE)[0])
    assert typed.stdout.split()[-1] == str(written), told

    with httpx.Client(base_url=place.url) as api:
        items = api.get("/clusters/prod/brokers").json()["items"]
        assert {broker["broker_id"]: broker["state"] for broker in items} == dict.fromkeys(
            (2, 3, 4), "active"
        )
        (topic,) = api.get("/clusters/prod/topics").json()["items"]
        assert (topic["state"], topic["under_replicated_partitions"]) == ("online", 0)
        replicas = [broker["replicas"] for broker in items]
        assert sum(replicas) == topic["partitions"] * topic["replication_factor"]
        assert max(replicas) - min(replicas) <= 1
        leaders = [broker["leaders"] for broker in items]
        assert max(leaders) - min(leaders) <= 1
        operations = api.get("/operations").json()["items"]
        assert {operation["state"] for operation in operations} == {"succeeded"}
        assert [operation["kind"] for operation in operations] == ["broker_drain", "broker_add", "broker_add"]
        assert api.get("/audit/verification?cluster=prod").json()["ok"] is True
