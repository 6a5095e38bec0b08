"""A stream that copies a topic while its driver, a broker and the network fail: once, of many in the proof.

In a process of its own: it adopts what killed drivers leave behind, which would be every other test's, too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline_proof.faults.proof import schedules
from tests.pipeline_proof.faults.schedule import Kind
from tests.pipeline_proof.part import load_all

pytest.importorskip("pyspark")

ROOT = Path(__file__).resolve().parents[3]
SEED = 2983
"""A killed driver, a zombie that goes on beside its successor, a killed broker, lost and late requests."""


@pytest.mark.proof
@pytest.mark.timeout(400)
def test_a_stream_outlives_kills_and_stores_every_record_once_and_in_order(tmp_path: Path) -> None:
    (schedule,) = schedules(1, SEED)
    assert set(schedule.kinds) == {Kind.KILL_DRIVER, Kind.ZOMBIE, Kind.KILL_BROKER}
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.pipeline_proof", "faults", "--runs", "1", "--first", str(SEED)),
            *("--directory", str(tmp_path / "run"), "--part", str(tmp_path / "part")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    (part,) = load_all(tmp_path / "part")
    assert part.is_ok
    assert part.faults[Kind.KILL_DRIVER] == part.faults[Kind.ZOMBIE] == 1
    assert part.figures["records"] == 8_000
