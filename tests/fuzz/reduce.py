"""Few inputs that reach what many do: those that are committed, and tried without a fuzzer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

OURS = str(Path(__file__).parents[2] / "springtide")

Step = tuple[CodeType, int, int]
"""A line, and the one before it in the same call."""


def few(
    run: Callable[[bytes], bool], inputs: Iterable[bytes], *, beyond: Iterable[bytes] = ()
) -> list[bytes]:
    """Return the inputs, short ones first, of which each takes a step that those before it do not take, nor
    those of `beyond`."""
    chosen: list[bytes] = []
    known = {step for data in beyond for step in steps(run, data)}
    for data in sorted(inputs, key=lambda each: (len(each), each)):
        taken = steps(run, data)
        if taken - known:
            known |= taken
            chosen.append(data)
    return chosen


def steps(run: Callable[[bytes], bool], data: bytes) -> set[Step]:
    """Return the steps in our own modules."""
    found: set[Step] = set()

    def on_call(frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return None
        last = 0

        def on_line(frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal last
            if event == "line":
                found.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return on_line

        return on_line

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        run(data)
    finally:
        sys.settrace(before)
    return found
