"""The committed classes are those that kio's definitions give."""

from __future__ import annotations

from tests.kit.springtide.wire_classes import FOLDER, modules


def test_the_classes_are_those_that_the_generator_writes() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")}
    del committed["__init__.py"]
    assert committed == modules(), "run `python -m tests.kit.springtide.wire_classes`"
