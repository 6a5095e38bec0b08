"""The words of the product: actors and rules are named, and a public class's name means one thing."""

from __future__ import annotations

import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
#: Not the client, the leader, the follower, the controller, the operator.
#: The setting allow.everyone.if.no.acl.found is Kafka's.
NO_ACTOR = re.compile(
    r"\b(?<!allow\.)([Ww]hoever|([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body|([Ss]ome|[Aa]ny|[Ee]very)one)\b"
)
RULE = r"(?:[ISL]\d{1,2}|(?:[2-9]|1[0-3])\.\d{1,2})"
#: The number of a rule, a scenario or a promise of docs/replication.md; and where brackets hold it alone.
CITED = re.compile(rf"(?<![\w.])({RULE})(?![\w.]*\d)")
BARE = re.compile(rf"[(;,] ?(?:docs/replication\.md,? )?({RULE})(?=[);.]|, {RULE}[,);])")


def prose(text: str) -> Iterator[str]:
    """Yield a module's docstrings and its comments, each without its line breaks."""
    comment, last_line = "", -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last_line + 1:
                yield comment
                comment = ""
            comment, last_line = f"{comment} {token.string.lstrip('#: ')}", token.start[0]
        elif token.type == tokenize.STRING and token.string.startswith('"""'):
            yield " ".join(token.string.split())
    yield comment


def cited_first_without_name(path: Path) -> Iterator[str]:
    """Yield the rules whose first mention in a module's prose is a number alone, in brackets."""
    text = path.read_text(encoding="utf-8")
    seen: set[str] = set()
    for passage in prose(text) if BARE.search(text) else ():
        bare = {found.start(1) for found in BARE.finditer(passage)}
        for found in CITED.finditer(passage):
            if found[1] not in seen and found.start() in bare:
                yield f"{path.relative_to(ROOT)}: {found[1]}"
            seen.add(found[1])


def found_in_the_product(wrong: re.Pattern[str]) -> Iterator[str]:
    """Yield where a module has such words, in a docstring, a comment or a message."""
    for package in LINTER["root_packages"]:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = re.sub(r"\s+(#:? )?", " ", path.read_text(encoding="utf-8"))
            yield from (f"{path.relative_to(ROOT)}: {found[0]}" for found in wrong.finditer(text))


def test_no_two_public_classes_have_one_name() -> None:
    """Kafka's names of its messages, in springtide/wire/messages, are not of our choice."""
    modules = (
        path
        for package in LINTER["root_packages"]
        for path in (ROOT / package).rglob("*.py")
        if path.parent.name != "messages"
    )
    classes = Counter(
        name for path in modules for name in re.findall(r"(?m)^class ([A-Z]\w*)", path.read_text("utf-8"))
    )
    assert len(classes) > 100
    assert [name for name, count in classes.items() if count > 1] == []


def test_the_words_name_the_actor() -> None:
    assert list(found_in_the_product(NO_ACTOR)) == []


@pytest.mark.parametrize("folder", [*LINTER["root_packages"], "bench", "tests"])
def test_a_rule_is_named_where_a_module_cites_it_first(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert [wrong for path in modules for wrong in cited_first_without_name(path)] == []
