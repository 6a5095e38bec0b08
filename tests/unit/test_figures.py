"""The figures in the documents are those of their sources, and no document has a block without one."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    spec = spec_from_file_location("figures_of_documents", ROOT / "docs/figures.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_derived_figure_is_what_its_source_says(figures: ModuleType) -> None:
    """`python docs/figures.py` writes them anew."""
    expected = figures.derived()
    drifted = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name, text in figures.blocks()
        if name in expected and text.strip() != expected[name].strip()
    ]
    assert drifted == []


def test_each_block_has_a_source_and_each_source_a_block(figures: ModuleType) -> None:
    assert {name for _, name, _ in figures.blocks()} == {*figures.DERIVED, *figures.MEASURED}


def test_each_marker_of_a_block_is_closed(figures: ModuleType) -> None:
    for path in figures.documents():
        text = path.read_text(encoding="utf-8")
        assert len(figures.BLOCK.findall(text)) == text.count("<!-- figures") == text.count("<!-- /figures")


def test_a_block_gets_its_new_figure_and_nothing_else_changes(figures: ModuleType) -> None:
    text = "in <!-- figures seeds -->3<!-- /figures --> and <!-- figures other -->4<!-- /figures -->."
    expected = "in <!-- figures seeds -->1,390<!-- /figures --> and <!-- figures other -->4<!-- /figures -->."
    assert figures.written(text, {"seeds": "1,390"}) == expected


def test_the_table_beside_kafka_has_a_row_for_each_case_that_was_compared(figures: ModuleType) -> None:
    ratios = {"throughput": 1.2345, "p50": 1.0, "p99": None, "cpu": 2.0, "memory": 4.9}
    cases: list[dict[str, Any]] = [
        {"case": "fetch", "ratios": ratios, "pipe_share": 0.21},
        {"case": "idle", "ratios": None, "pipe_share": None},
    ]
    table = figures.beside_kafka({"cases": cases})
    assert table.splitlines()[2:] == ["| fetch | 1.23 | 1.00 |  | 2.00 | 4.90 | 21% |"]


def test_the_table_of_groups_has_a_column_for_each_side(figures: ModuleType) -> None:
    ours = dict.fromkeys(figures.UNITS, 1.25) | {"commits_per_second": 12_365.4, "commit_p50_ms": None}
    table = figures.groups({"machine": {}, "quick": False, "springtide": ours, "kafka": ours})
    head, _, *rows = table.splitlines()
    assert head == "| what | springtide | kafka |"
    assert "| commits a second | 12,365 | 12,365 |" in rows
    assert "| a commit takes, p50 ms |  |  |" in rows
    assert "| and one more, s | 1.2 | 1.2 |" in rows


def test_the_table_of_plans_has_moves_but_for_the_snapshot(figures: ModuleType) -> None:
    plans = [
        {"name": "the snapshot itself", "milliseconds": 239.4, "items": 100_000},
        {"name": "a rack is drained", "milliseconds": 4_469.0, "items": 30_000},
    ]
    assert figures.plans({"plans": plans}).splitlines()[2:] == [
        "| the snapshot itself | 239 |  |",
        "| a rack is drained | 4,469 | 30,000 |",
    ]
