"""`python -m tests.checker`: what it prints, and with which exit code a run can go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.checker.__main__ import BAD, CLEAN, UNUSABLE, main
from tests.checker.builder import HistoryBuilder
from tests.checker.history import Operation, write_history
from tests.kit.clean_histories import make_clean_history

K = ("orders", 0)


def write(path: Path, operations: list[Operation]) -> str:
    with path.open("wb") as stream:
        write_history(stream, operations)
    return str(path)


def a_loss() -> list[Operation]:
    builder = HistoryBuilder()
    builder.send("p", K, [(0, builder.new_value(K))])
    builder.poll("c", K, [], final=True)
    return builder.operations


def test_a_clean_history_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path / "h.jsonl", make_clean_history(1))]) == CLEAN
    assert capsys.readouterr().out.startswith("clean: ")


def test_a_bad_history_exits_1_and_says_what_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "verdict.json"
    assert main([write(tmp_path / "h.jsonl", a_loss()), "--json", str(report)]) == BAD
    printed = capsys.readouterr().out
    assert "bad lost-acked: 1" in printed
    assert "line 1: p send ok" in printed
    verdict = json.loads(report.read_bytes())
    assert verdict["bad"] == {"lost-acked": 1}
    assert verdict["anomalies"][0]["key"] == ["orders", 0]
    assert verdict["figures"]["lost"] == 1
    assert verdict["series"]["unseen"]["orders/0"] == [{"at_ms": 0, "value": 1}]


def test_options_change_what_is_allowed(tmp_path: Path) -> None:
    builder = HistoryBuilder()
    builder.send("p", K, [(0, builder.new_value(K))], at=(0, 500))
    path = write(tmp_path / "h.jsonl", builder.operations)
    assert main([path]) == BAD
    assert main([path, "--without-final-read"]) == CLEAN
    assert main([path, "--without-final-read", "--stall-ms-max", "400"]) == BAD


@pytest.mark.parametrize("content", [None, b"nonsense\n"])
def test_a_file_that_is_no_history_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = tmp_path / "h.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == UNUSABLE
    assert "h.jsonl" in capsys.readouterr().err
