"""The words of the product: actors and rules are named, and a public class's name means one thing."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
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


def test_no_two_public_classes_have_one_name() -> None:
    modules = (path for package in LINTER["root_packages"] for path in (ROOT / package).rglob("*.py"))
    classes = Counter(
        name for path in modules for name in re.findall(r"(?m)^class ([A-Z]\w*)", path.read_text("utf-8"))
    )
    assert len(classes) > 100
    assert [name for name, count in classes.items() if count > 1] == []


def test_the_words_name_the_actor() -> None:
    assert list(found_in_the_product(NO_ACTOR)) == []


def test_a_rule_is_cited_with_its_name() -> None:
    assert list(found_in_the_product(BARE_RULE)) == []
