"""What docs/spark-places.md says of a landed folder without Spark, typed as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from pipeline.land.reading import landed
from tests.kit.pipeline.brokers import ScriptedBroker
from tests.kit.pipeline.land_world import HOUR_MS, NOON_MS, Landing, Logs

ROOT = Path(__file__).resolve().parents[4]
SECTION = (
    (ROOT / "docs/spark-places.md")
    .read_text(encoding="utf-8")
    .split("\n## A landed folder without Spark\n")[1]
)
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
RECORDS = 40


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    with ExitStack() as stack:
        logs = Logs(stack.enter_context(ScriptedBroker({})))
        logs.make("orders", 1)
        logs.write("orders", 0, [NOON_MS + n * HOUR_MS // 20 for n in range(RECORDS)])
        Landing(logs, tmp_path).run()
        yield tmp_path


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_reader_finds_every_record(lake: Path, number: int) -> None:
    snippet = SNIPPETS[number].replace("/lake", str(lake))
    library = re.search(r"^import (\w+)", snippet, re.MULTILINE)
    assert library is not None
    if find_spec(library[1]) is None:
        pytest.skip(f"{library[1]} is not installed")
    snippet = "\n".join(line for line in snippet.splitlines() if "'cents'" not in line)  # no JSON here
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert landed(lake).records == RECORDS
    assert re.search(rf"\b({RECORDS}|{RECORDS - 1})\b", done.stdout), done.stdout


def test_the_page_has_a_snippet_for_each_of_four_readers_and_for_the_manifests() -> None:
    assert len(SNIPPETS) == 5
