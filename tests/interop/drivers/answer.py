"""The line loop of the drivers that are written in Python: one request in, one answer out (see rows.py)."""

from __future__ import annotations

import json
import sys
from typing import Any


class NotHere(Exception):
    """This machine lacks what the call needs; the message says what."""


def first_line(error: object) -> str:
    """Return the name of the error and its first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines else name


def serve(client: Any) -> None:
    """Answer requests from standard input by the client's method of that name, until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        method = getattr(client, asked["call"], None)
        if method is None:
            answer: dict[str, object] = {"absent": ""}
        else:
            try:
                answer = {"value": method(asked)}
            except NotImplementedError as absent:
                answer = {"absent": str(absent)}
            except NotHere as missing:
                answer = {"missing": str(missing)}
            except Exception as error:
                answer = {"error": first_line(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
