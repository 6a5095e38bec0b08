"""The 2013 schedule on simulated hosts, with our defaults and with the settings of 2013, at its highest rate.

In a process of its own: hosts are made in namespaces that a process enters before it has threads, which
pytest has by now. `python -m tests.faults.jepsen2013` does the same at the published pace.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.hosts.sandbox import why_no_sandbox
from tests.faults.jepsen2013.schedule import RATE_MAX
from tests.proof.part import load_all

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

RUN_SECONDS_MAX = 480.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def simulated_hosts() -> None:
    reason = why_no_sandbox()
    if reason and not os.environ.get("CI_REQUIRED"):
        pytest.skip(reason)
    assert not reason, f"{reason}; and CI must not skip it"


def run_schedule(build: Path, *options: str) -> str:
    """Returns what it printed; it must have found no fault."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.faults.jepsen2013"),
            *("--rate", f"{RATE_MAX:g}", "--build", str(build)),
            *options,
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_defaults_lose_nothing_and_the_settings_of_2013_lose_nothing_silently(tmp_path: Path) -> None:
    run_schedule(tmp_path)
    (part,) = load_all(tmp_path / "proof")
    assert part.figures["total"] == part.figures["control total"] == 1000
    assert part.figures["lost"] == 0
    lost = part.figures["control lost"]
    assert isinstance(lost, int)
    assert lost > 0
    assert part.figures["control lost found in divergent files"] == lost


def test_idempotent_writers_outlast_the_isolation_and_everything_is_acknowledged_once(tmp_path: Path) -> None:
    printed = run_schedule(tmp_path, "--no-control", "--idempotent")
    (row,) = [line for line in printed.splitlines() if line.startswith("Springtide, defaults, idempotent ")]
    assert row.split()[-4:] == ["1000", "1000", "1000", "0"], printed
    assert "integers read twice: 0" in printed
