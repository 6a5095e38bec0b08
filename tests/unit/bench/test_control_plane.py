"""The large cluster that questions are put to, at a size for tests."""

from __future__ import annotations

import pytest

from bench.__main__ import main


def test_the_command_prints_its_tables_and_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    main(["control_plane", "--brokers", "10", "--partitions", "1000", "--rounds", "1"])
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "10 brokers, 1,000 partitions" in line] == [
        printed[0],
        printed[7],
        printed[15],
    ]
    assert printed[-1].endswith(" MiB")
