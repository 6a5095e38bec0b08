"""Every link between documents leads somewhere, every rule that is cited exists, and lines are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *sorted(ROOT.glob("*.md")),
    ROOT / "tests/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
RULES = ROOT / "docs/replication"
CODE = ("admin_api", "controller", "coordinator", "dataplane", "springtide", "pipeline", "tests")
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
CITED = re.compile(r"docs/replication\.md,? (\d+\.\d+)")


def slug(heading: str) -> str:
    """Return a heading's anchor, as GitHub and MkDocs make it."""
    return re.sub(r"[ ]+", "-", re.sub(r"[^\w\- ]", "", heading.strip().lower()))


@cache
def anchors(path: Path) -> frozenset[str]:
    text = re.sub(r"(?ms)^```.*?^```", "", path.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return frozenset({*map(slug, headings), *re.findall(r'<a id="([^"]+)">', text)})


def links(path: Path) -> Iterator[tuple[str, str]]:
    text = re.sub(r"(?ms)^ *```.*?^ *```|`[^`]*`", "", path.read_text(encoding="utf-8"))
    yield from LINK.findall(text)


def test_every_link_between_documents_leads_somewhere() -> None:
    broken: list[str] = []
    for path in DOCUMENTS:
        for target, anchor in links(path):
            found = path if not target else (path.parent / target).resolve()
            if not found.exists() or (anchor and anchor not in anchors(found)):
                broken.append(f"{path.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def test_every_rule_has_one_anchor() -> None:
    pages = sorted(RULES.glob("*.md"))
    found = [anchor for page in pages for anchor in re.findall(r'<a id="([^"]+)">', page.read_text("utf-8"))]
    assert len(found) > 200
    assert len(found) == len(set(found))
    marked = {
        rule.lower().replace(".", "-")
        for page in pages
        for rule in re.findall(r"(?m)^(?:<a[^>]*></a>)?\*\*([A-Z]\d+|\d+\.\d+)\b", page.read_text("utf-8"))
    }
    assert marked <= set(found)


def test_every_rule_that_the_code_cites_by_its_page_exists() -> None:
    known = {anchor for page in RULES.glob("*.md") for anchor in anchors(page)}
    cited = {
        (str(path.relative_to(ROOT)), rule)
        for folder in CODE
        for path in (ROOT / folder).rglob("*.py")
        for rule in CITED.findall(re.sub(r"\s+(#:? )?", " ", path.read_text(encoding="utf-8")))
    }
    assert len(cited) > 30
    assert {(path, rule) for path, rule in cited if rule.replace(".", "-") not in known} == set()


def test_each_report_is_named_in_its_test() -> None:
    """docs/reports.md: by its number, or by the version or the day that it is told by."""
    text = (ROOT / "docs/reports.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| ([^|]*\d[^|]*) \|.*?(`tests/.*)\|$", text)
    assert len(rows) > 50
    for reports, paths in rows:
        told = "".join((ROOT / path).read_text("utf-8") for path in re.findall(r"`([^`]*)`", paths))
        unnamed = [one for one in re.findall(r"\d[\d.-]{2,}", reports) if one not in told]
        assert unnamed == [], reports


def test_no_line_of_a_document_is_longer_than_a_hundred_columns() -> None:
    """`python docs/lines.py` wraps what is. Tables, code, pictures and long words may be longer."""
    spec = spec_from_file_location("lines_of_documents", ROOT / "docs/lines.py")
    assert spec is not None and spec.loader is not None
    lines = module_from_spec(spec)
    spec.loader.exec_module(lines)
    for path in lines.documents():
        text = path.read_text(encoding="utf-8")
        assert lines.wrapped(text) == text, path
    sentence = "word " * 30
    assert max(map(len, lines.wrapped(f"- {sentence}").split("\n"))) <= lines.COLUMNS
    assert lines.wrapped(f"| {sentence} |") == f"| {sentence} |"
