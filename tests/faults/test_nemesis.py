"""A short run of the nemesis with a fixed seed; the long one is `python -m tests.faults.nemesis`.

In a process of its own: hosts are made in namespaces that a process enters before it has threads, which
pytest has by now.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.hosts.sandbox import why_no_sandbox
from tests.proof.part import load_all

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
MINUTES = 0.7
SEED = 20130518
RUN_SECONDS_MAX = 840.0
FAULTS_MIN = 4
ACKNOWLEDGED_MIN = 1000


def test_a_short_run_of_the_nemesis_loses_nothing(tmp_path: Path) -> None:
    reason = why_no_sandbox()
    if reason and not os.environ.get("CI_REQUIRED"):
        pytest.skip(reason)
    assert not reason, f"{reason}; and CI must not skip it"
    command = [sys.executable, "-m", "tests.faults.nemesis", "--minutes", f"{MINUTES:g}", "--seed", str(SEED)]
    ended = subprocess.run(
        [*command, "--part", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    (part,) = load_all(tmp_path)
    assert part.is_ok
    assert sum(part.faults.values()) >= FAULTS_MIN
    assert int(part.figures["records acknowledged"]) >= ACKNOWLEDGED_MIN
