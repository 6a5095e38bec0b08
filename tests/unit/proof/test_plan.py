"""Slow tests of a commit: each file of them runs on one of three days, all else on each day."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.proof.plan import TURNS

FILES = ["a", "b", "c", "c", "d", "quick"]
ITEMS = [SimpleNamespace(path=Path(f"{file}.py"), slow=file != "quick") for file in FILES]
for item in ITEMS:
    item.get_closest_marker = lambda name, item=item: name if item.slow and name == "slow" else None


def selected(turn: int | None) -> list[Any]:
    told: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))  # noqa: PLW0108
    items: list[Any] = list(ITEMS)
    config: Any = SimpleNamespace(getoption={"turn": turn}.__getitem__, hook=hook)
    pytest_collection_modifyitems(config, items)
    assert sorted(map(id, [*items, *told])) == sorted(map(id, ITEMS)), "what is left out is told"
    return items


def test_without_a_turn_all_run() -> None:
    assert selected(None) == ITEMS


@pytest.mark.parametrize("turn", range(TURNS))
def test_quick_tests_run_in_each_turn(turn: int) -> None:
    assert ITEMS[-1] in selected(turn)


def test_each_slow_test_runs_in_one_turn_with_all_of_its_file() -> None:
    turns = [[item.path.stem for item in selected(turn) if item.slow] for turn in range(TURNS)]
    assert turns == [["a", "d"], ["b"], ["c", "c"]]
