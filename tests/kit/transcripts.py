"""Transcripts: what a test's scenario answered, in a text file beside the test, for a reviewer to read.

`WRITE_TRANSCRIPTS=1 pytest FILE` (without -n) writes them anew; any other run compares. A rewritten
transcript may hold a wrong answer: so the point of a scenario is an assertion in its test as well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

HEADING = "== "


def sections(path: Path) -> dict[str, str]:
    """Return the text below each heading of a file of transcripts, in its order; none if there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = (part.partition("\n") for part in f"\n{text}".split(f"\n{HEADING}")[1:])
    return {heading: body.strip("\n") for heading, _, body in parts}


def check(path: Path, heading: str, lines: Sequence[str], tests: Sequence[str]) -> None:
    """Compare one test's transcript with its section of the file, or write it there.

    tests: the names of the file's tests, in order. A section without its test goes when they are written.
    """
    found, known = "\n".join(lines), sections(path)
    kept = [one for test in tests for one in {**known, heading: ""} if one.partition("[")[0] == test]
    if not os.environ.get("WRITE_TRANSCRIPTS"):
        assert set(known) <= set(kept), "a transcript without its test"
        assert found == known.get(heading), f"WRITE_TRANSCRIPTS=1 writes {path.name} anew"
        return
    known[heading] = found
    path.write_text("\n\n".join(f"{HEADING}{one}\n{known[one]}" for one in kept) + "\n", encoding="utf-8")
