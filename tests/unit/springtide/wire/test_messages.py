"""The committed classes are those that kio's definitions give."""

from __future__ import annotations

from tests.kit.springtide.wire_classes import MODULE, module


def test_the_classes_are_those_that_the_generator_writes() -> None:
    committed = MODULE.read_text(encoding="utf-8")
    assert committed == module(), "run `python -m tests.kit.springtide.wire_classes`"
