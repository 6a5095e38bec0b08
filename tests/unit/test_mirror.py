"""Unit tests mirror the source: test_<module>[_<aspect>].py, in the folder of the same name.

A folder's own name stands for all of its modules. What was named otherwise before this rule is listed in
`mirror`; the list only shrinks.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests/unit"
LISTED = Path(__file__).with_name("mirror")
LISTED_MAX = 74


def names_for(folder: Path) -> set[str]:
    """Return the names that tests of a folder may begin with."""
    source = ROOT / folder if (ROOT / folder).is_dir() else ROOT / "tests" / folder
    inside = {path.stem.strip("_") for path in source.iterdir() if path.suffix in (".py", "")}
    return {source.name, *inside} - {"init"}


def names_no_module(test: Path) -> bool:
    name = test.stem.removeprefix("test_")
    return not any(f"{name}_".startswith(f"{one}_") for one in names_for(test.parent.relative_to(UNIT)))


def test_each_unit_test_is_named_after_a_module_but_for_those_that_are_listed() -> None:
    """A name that is right now goes from the list."""
    tests = [path for path in sorted(UNIT.rglob("test_*.py")) if path.parent != UNIT]
    assert len(tests) > 400
    found = {path.relative_to(UNIT).as_posix() for path in tests if names_no_module(path)}
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if not line.startswith("#")]
    assert sorted(found) == listed
    assert len(listed) <= LISTED_MAX, "the list only shrinks"
