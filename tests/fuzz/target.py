"""What a fuzzer tries: a function of bytes, and inputs to begin with."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

CORPUS = Path(__file__).parent / "corpus"
INPUT_BYTES_MAX = 4 * 1024
"""Of an input that is made from the others. Those of size alone are tests of their own."""


class Target(NamedTuple):
    """run: returns whether our code takes the input. It catches the documented exceptions, and asserts what
    must hold. seeds: inputs that are taken."""

    run: Callable[[bytes], bool]
    seeds: Callable[[], Sequence[bytes]]


def kept(name: str) -> list[bytes]:
    """Return the committed inputs of a target: one a line, in base64."""
    path = CORPUS / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split()] if path.is_file() else []


def keep(name: str, inputs: Sequence[bytes]) -> None:
    """Commit these inputs in place of the earlier ones."""
    if not inputs:
        return
    lines = sorted({base64.b64encode(each).decode() for each in inputs}, key=lambda line: (len(line), line))
    (CORPUS / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def seeded() -> random.Random:
    """Return the same stream for each call: inputs to begin with are the same on every machine."""
    return random.Random(17)
