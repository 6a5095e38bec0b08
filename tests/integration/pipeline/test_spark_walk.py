"""The walk through Spark, typed as it stands: land, draw, verify a broken log, salvage a cut one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.walks import blocks, needs, typed, up

# Five Sparks are started one after the other.
pytestmark = [pytest.mark.proof, pytest.mark.timeout(700), needs("curl", "kcat", "jq")]

PAGE, HEADING = "docs/spark.md", "# For data engineers: the log in Spark, in one walk"
WALK_SECONDS_MAX = 600.0


def test_the_walk_works_as_it_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first, *walk = blocks(PAGE, HEADING)
    with up(first, tmp_path) as (place, _):
        done = typed(
            place.here("\n".join(walk)),
            before='curl() { command curl -sS --fail-with-body "$@"; echo; }',
            seconds_max=WALK_SECONDS_MAX,
        )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    # 20,000 orders are in the drawing.
    assert (tmp_path / "orders.png").read_bytes().startswith(b"\x89PNG")
    sums = re.search(
        r"^\{'apples': ([\d.]+), 'lemons': ([\d.]+), 'pears': ([\d.]+)\}$", done.stdout, re.MULTILINE
    )
    assert sums is not None, told
    assert sum(map(float, sums.groups())) == pytest.approx(sum(n * 37 % 5000 for n in range(1, 20001)) / 100)
    # The broken replica is found, the lost records too; both are said by an exit status.
    assert done.stdout.count("exit status 1") == 2, told
    assert re.search(r"^orders-0  broker 2, .*: crc_mismatch$", done.stdout, re.MULTILINE), told
    counts = re.findall(r"^\s*(\d+)$", done.stdout, re.MULTILINE)
    assert [int(count) for count in counts][-2:] == [100, 1100], told
