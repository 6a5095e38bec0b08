"""What salvage says, and when it says that something is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.client.values import TopicPartition
from pipeline.jobs.cli import execute
from pipeline.jobs.parser import parse
from pipeline.salvage.copies import Copy, Orphan
from pipeline.salvage.job import why_not
from pipeline.salvage.merge_plan import RecordRun
from pipeline.salvage.report import (
    MISSING,
    PRESENT,
    RUNS_SHOWN,
    MissingRun,
    PartitionVerdicts,
    SalvageFindings,
    SalvageReport,
    lines,
    result,
)

WHERE = TopicPartition("clicks", 0)
COPY = Copy(2, "clicks-0.id.0-9.0", WHERE, 5, 9, 400, 8)
FINDING = PartitionVerdicts(WHERE, {PRESENT: 1, MISSING: 3}, 2, 1_000_000, None)
RUN = MissingRun(WHERE, RecordRun(2, "clicks-0.id.0-9.0", 3, 6, 8), is_committed=True)
FOUND = SalvageReport((COPY,), SalvageFindings((FINDING,), (RUN,)))


def shown(report: SalvageReport) -> str:
    return "\n".join(lines(report))


def test_what_is_missing_is_told_and_what_to_do_about_it() -> None:
    assert not FOUND.is_whole
    text = shown(FOUND)
    assert text.splitlines()[:2] == [
        "PARTITION  COPIES  CUT OFF  PRESENT  REPEATED  SUPERSEDED  MISSING  COMMITTED  MERGED",
        "clicks-0        1        4        1         0           0        3          2       -",
    ]
    assert "clicks-0 offsets 6 to 8 of leader epoch 3, in broker 2's copy; committed" in text
    assert "--merge" in text


def test_a_merge_leaves_nothing_missing() -> None:
    merged = FOUND._replace(merged={WHERE: 3})
    assert merged.is_whole
    assert "Appended 3 records." in shown(merged)
    assert result(merged)["missing"] == 0
    assert not FOUND._replace(merged={WHERE: 2}).is_whole
    dry = FOUND._replace(would_merge=3)
    assert not dry.is_whole
    assert "Would append 3 records; nothing was written." in shown(dry)


def test_what_could_not_be_compared_is_never_called_whole() -> None:
    nothing = SalvageReport((), SalvageFindings())
    assert nothing.is_whole
    assert "nothing was cut off" in shown(nothing)
    for lacking, words in (
        (nothing._replace(unasked={3: "it is not alive"}), "broker 3 could not report"),
        (nothing._replace(unreadable=((COPY, "it is damaged"),)), "not compared: clicks-0 offsets 5 to 8"),
    ):
        assert not lacking.is_whole
        assert words in shown(lacking)
    assert nothing._replace(orphans=(Orphan(1, "gone", 5),)).is_whole, "their topic was deleted on purpose"


def test_the_result_is_json_and_long_lists_are_cut() -> None:
    many = FOUND._replace(findings=SalvageFindings((FINDING,), (RUN,) * 50))
    assert f"... and {50 - RUNS_SHOWN} more places" in shown(many)
    told = json.loads(json.dumps(result(many)))
    assert len(told["runs"]) == 50
    assert told["runs"][0] == {
        "topic": "clicks",
        "partition": 0,
        "broker": 2,
        "copy": "clicks-0.id.0-9.0",
        "leaderEpoch": 3,
        "firstOffset": 6,
        "lastOffset": 8,
        "committed": True,
    }
    assert told["partitions"][0]["missing"] == 3
    assert told["copies"][0]["lastOffset"] == 8


def options(*words: str) -> Any:
    return parse(["salvage", *words], version="0")


@pytest.mark.parametrize(
    ("finding", "words", "reason"),
    [
        (FINDING, (), ""),
        (FINDING._replace(counts={PRESENT: 1}, trimmed_to=7), (), ""),
        (FINDING._replace(newest_ms=9_800_000), (), "200 s old"),
        (FINDING._replace(newest_ms=9_800_000), ("--min-age", "100"), ""),
        (FINDING._replace(newest_ms=99_800_000), (), "0 s old"),
        (FINDING._replace(newest_ms=-1), (), "brokers stamp"),
        (FINDING._replace(newest_ms=-1), ("--min-age", "0"), ""),
        (FINDING._replace(trimmed_to=7), (), "begins at offset 7"),
        (FINDING._replace(trimmed_to=7), ("--accept-trimmed",), ""),
    ],
)
def test_partitions_that_had_better_wait_are_not_merged(
    finding: PartitionVerdicts, words: tuple[str, ...], reason: str
) -> None:
    told = why_not(options(*words), finding, now_ms=10_000_000)
    assert reason in told
    assert bool(told) is bool(reason)


class Console:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--merge",), "--merge needs --checkpoint DIR"),
        (("--dry-run",), "are for --merge"),
        (("--checkpoint", "/x"), "are for --merge"),
    ],
)
def test_contradictions_are_refused(words: tuple[str, ...], message: str) -> None:
    out, err = Console(), Console()
    status = execute(["salvage", *words], out, err)  # type: ignore[arg-type]
    assert status == 2
    assert message in err.text


def test_numbers_out_of_range_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--min-age", "-1"), ("--min-age", "x"), ("--batch-bytes", "10"), ("--batch-bytes", "-5")):
        with pytest.raises(SystemExit):
            options(*words)
    assert "must be" in capsys.readouterr().err
