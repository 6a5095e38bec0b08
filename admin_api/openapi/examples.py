"""The answers that the document shows, as `python -m tests.rest_examples --write` recorded them from the
application."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).with_name("examples.json")


@cache
def recorded_examples() -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Return the examples of each answer, by operation and status and then by name: a summary and a value."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for key, example in json.loads(PATH.read_text(encoding="utf-8")).items():
        operation_id, status, name = key.split(" ")
        found.setdefault((operation_id, status), {})[name] = example
    return found
