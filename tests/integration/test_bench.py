"""A small benchmark of real clusters: that it measures what it is asked, never how fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(290)

CASES = (
    *("idle-brokers", "produce-all-66k-1x8", "tail-100b-1x1", "client-consume-100b", "catch-up"),
    *("produce-all-66k-4x4-readers-behind", "produce-all-100b-8x1-acls"),
)
"""Each kind of load, the pipe, a broker that is away, and each setup but TLS, which is that of ACLs, too."""


@pytest.mark.slow
def test_each_kind_of_row_is_measured(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    chosen = [argument for case in CASES for argument in ("--case", case)]
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench",
            "cluster",
            "--quick",
            "--seconds",
            "1",
            "--output",
            str(output),
            *chosen,
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    measured = {row["case"]: row for row in json.loads(output.read_text("utf-8"))["cases"]}
    assert sorted(measured) == sorted(CASES)
    assert measured["produce-all-66k-1x8"]["pipe_share"] > 0
    assert all(case in ended.stdout for case in CASES)
