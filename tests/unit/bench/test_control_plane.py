"""The large cluster that questions are put to, at a size for tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main


def test_the_command_prints_its_tables_and_the_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "control-plane.json"
    small = ["--brokers", "10", "--partitions", "1000", "--rounds", "1"]
    main(["control_plane", *small, "--output", str(output)])
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "10 brokers, 1,000 partitions" in line] == [
        printed[0],
        printed[7],
        printed[15],
    ]
    assert printed[-1].endswith(" MiB")
    plans = json.loads(output.read_text(encoding="utf-8"))["plans"]
    assert [plan["name"] for plan in plans][:2] == ["the snapshot itself", "nothing to do"]
