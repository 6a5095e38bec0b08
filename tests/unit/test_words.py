"""The words of the product name the actor, and say what a rule is that they cite by number."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
#: Not the client, the leader, the follower, the controller, the operator.
NO_ACTOR = re.compile(r"\b([Ww]hoever|([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body|([Ss]ome|[Aa]ny|[Ee]very)one)\b")
#: The number alone of an invariant, a scenario or a promise of docs/replication.md.
BARE_RULE = re.compile(r"[(;,] ?[ISL]\d{1,2}[);.]")


def found_in_the_product(wrong: re.Pattern[str]) -> Iterator[str]:
    """Yield where a module has such words, in a docstring, a comment or a message."""
    for package in LINTER["root_packages"]:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = re.sub(r"\s+(#:? )?", " ", path.read_text(encoding="utf-8"))
            yield from (f"{path.relative_to(ROOT)}: {found[0]}" for found in wrong.finditer(text))


def test_the_words_name_the_actor() -> None:
    assert list(found_in_the_product(NO_ACTOR)) == []


def test_a_rule_is_cited_with_its_name() -> None:
    assert list(found_in_the_product(BARE_RULE)) == []
