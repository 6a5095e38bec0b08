"""What one test or benchmark shows of one row of the table, as it leaves it in `build/pipeline-proof/`.

A part is written when its block ends, whatever happened in it; an exception is one of its failures and goes
on upwards. What was not run has no part, and the table says so: absence never passes.

    with proving(row=8, part="corruptions") as part:
        part.faults["bit flip"] = 5
        part.figures["GB/s per core"] = 1.2
        if found != truth:
            part.fail("a dropped batch was not found")
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.proof.part import Figure

DIRECTORY = Path("build/pipeline-proof")
ROWS = range(1, 12)

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class Part(msgspec.Struct, kw_only=True):
    """What has been seen so far.

    row: 1 to 11. part: tells the parts of one row apart. seconds: of wall clock.
    figures: in the order to be shown; a bar that must be met stands in the figure's name.
    faults: how often each kind struck.
    failures: one line for each thing that must not be.
    beyond_reach: what the row asks for and this machine can't do, such as a peer that is not installed. Shown
        beside the row; no failure.
    missing, duplicates, inversions: records, of what must be exactly once. What a control run has of them,
        whose promise is weaker, belongs to `figures`.
    """

    row: int
    part: str
    seconds: float = 0.0
    figures: dict[str, Figure] = {}
    faults: dict[str, int] = {}
    failures: list[str] = []
    beyond_reach: list[str] = []
    missing: int = 0
    duplicates: int = 0
    inversions: int = 0

    @property
    def name(self) -> str:
        return part_name(self.row, self.part)

    @property
    def is_ok(self) -> bool:
        return not (self.failures or self.missing or self.duplicates or self.inversions)

    def fail(self, line: str) -> None:
        """Something that must not be."""
        self.failures.append(line)

    def not_compared(self, line: str) -> None:
        """Something that could not be run here."""
        self.beyond_reach.append(line)


def part_name(row: int, part: str) -> str:
    """Of its file and in the plan: `08-corruptions`. Raises ValueError."""
    if row not in ROWS or not _NAME.match(part):
        raise ValueError(f"row {row}, part {part!r}: rows are 1 to 11, parts named like 'local-cluster'")
    return f"{row:02d}-{part}"


@contextmanager
def proving(row: int, part: str, *, directory: Path = DIRECTORY) -> Iterator[Part]:
    """A part to be filled in; written at the end of the block in place of an earlier one of its name."""
    seen = Part(row=row, part=part)
    path = directory / f"{seen.name}.json"
    began = time.monotonic()
    try:
        yield seen
    except BaseException as error:
        lines = str(error).strip().splitlines()
        seen.fail(f"{type(error).__name__}: {lines[0] if lines else 'no message'}")
        raise
    finally:
        seen.seconds = round(time.monotonic() - began, 1)
        directory.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(seen), indent=2) + b"\n")


def load_all(directory: Path = DIRECTORY) -> list[Part]:
    """Every part that was left there, in the order of rows."""
    return [msgspec.json.decode(path.read_bytes(), type=Part) for path in sorted(directory.glob("*.json"))]
