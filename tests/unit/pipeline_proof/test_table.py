"""The pipeline's table: a row passes by what its parts show, never by being absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline_proof.part import Part, load_all, part_name, proving
from tests.pipeline_proof.plan import ROWS, steps
from tests.pipeline_proof.table import render, row_holds


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def row_of(text: str, number: int) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {number:2} ")]
    return cells(line)


def test_a_part_is_written_at_the_end_of_its_block_and_replaces_its_predecessor(tmp_path: Path) -> None:
    for gigabytes in (1.5, 2.5):
        with proving(8, "corruptions", directory=tmp_path) as part:
            part.figures["GB/s per core"] = gigabytes
            part.not_compared("no peer here")
    (read,) = load_all(tmp_path)
    assert (read.name, read.figures, read.beyond_reach) == (
        "08-corruptions",
        {"GB/s per core": 2.5},
        ["no peer here"],
    )
    assert read.is_ok


def test_what_breaks_off_is_written_as_a_failure_and_goes_on_upwards(tmp_path: Path) -> None:
    with pytest.raises(KeyError), proving(9, "salvage", directory=tmp_path) as part:
        part.figures["merged"] = 3
        raise KeyError("no such suffix")
    (read,) = load_all(tmp_path)
    assert read.failures == ["KeyError: 'no such suffix'"]
    assert read.figures == {"merged": 3}
    assert not read.is_ok


@pytest.mark.parametrize("wrong", ["missing", "duplicates", "inversions"])
def test_records_that_are_wrong_fail_a_part(wrong: str) -> None:
    assert not Part(row=6, part="spark", **{wrong: 1}).is_ok  # type: ignore[arg-type]


@pytest.mark.parametrize(("row", "part"), [(0, "x"), (12, "x"), (1, ""), (1, "A b"), (1, "../x")])
def test_a_part_has_a_row_and_a_plain_name(row: int, part: str) -> None:
    with pytest.raises(ValueError, match="rows are 1 to 11"):
        part_name(row, part)


def test_every_row_has_a_step_and_no_part_has_two() -> None:
    names = [name for step in steps(1) for name in step.parts]
    assert len(names) == len(set(names))
    assert {int(name[:2]) for name in names} == {row.number for row in ROWS} == set(range(1, 12))


def test_a_row_holds_when_all_of_its_parts_are_there_and_held() -> None:
    row = ROWS[5]
    good, bad = Part(row=6, part="simulation"), Part(row=6, part="spark", failures=["run 3: it hangs"])
    assert row_holds(row, [good], [])
    assert not row_holds(row, [], [])
    assert not row_holds(row, [good], ["06-spark"])
    assert not row_holds(row, [good, bad], [])


def test_the_table_says_what_failed_what_did_not_run_and_what_could_not() -> None:
    parts = [
        Part(row=2, part="read", figures={"1 KB Mrec/s": 0.5}, beyond_reach=["Spark's Kafka source: no jar"]),
        Part(row=6, part="simulation", missing=2, faults={"kill": 7}),
        Part(row=8, part="verify"),
    ]
    text = render(parts, ["05-connect", "08-live"], subject="tree 1")
    assert "**It does not hold.**" in text
    assert "- 05-connect: did not run to its end" in text
    assert row_of(text, 2)[2] == "held"
    assert row_of(text, 6)[2:5] == ["FAILED", "0", "2"]
    assert row_of(text, 8)[2] == "INCOMPLETE"
    assert row_of(text, 11)[2] == "DID NOT RUN"
    assert "- 02-read: Spark's Kafka source: no jar" in text
    assert ["fault: kill", "7"] in [cells(line) for line in text.splitlines()]


def test_a_table_of_some_rows_holds_without_the_others() -> None:
    text = render([Part(row=2, part="read")], [], subject="tree 1", rows=[ROWS[1]])
    assert "does not hold" not in text
    assert "DID NOT RUN" not in text
