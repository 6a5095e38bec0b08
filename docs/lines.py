"""End the lines of documents at 100 columns: `python docs/lines.py`. A test finds a longer one.

A paragraph or a list item with a longer line is wrapped again. Tables, code, headings and pictures stay; a
link, a span of code and a figure's block are never broken.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLUMNS = 100
LEFT_OUT = frozenset({"CHANGELOG.md"})
ITEM = re.compile(r"(\s*)([-*+] +|\d+\. +)?")
WHOLE = re.compile(r"`[^`]*`|!?\[[^\]\[]*\]\([^)]*\)|<!-- figures.*?/figures -->|<a [^>]*></a>")
#: At its beginning, a line would be read as something else.
MARKUP = re.compile(r"([-*+>#]|\d+[.)])(\s|$)|\|")
NO_PARAGRAPH = ("|", "#", "<!--", "![", "!!!", "---", ">")


def documents() -> Iterator[Path]:
    for pattern in ("*.md", "tests/README.md", "docs/**/*.md"):
        yield from (path for path in sorted(ROOT.glob(pattern)) if path.name not in LEFT_OUT)


def wrapped(text: str) -> str:
    """Return a document's text with its long paragraphs wrapped."""
    lines: list[str] = []
    paragraph: list[str] = []
    is_code = False

    def end() -> None:
        lines.extend(_wrapped(paragraph) if any(len(line) > COLUMNS for line in paragraph) else paragraph)
        paragraph.clear()

    for line in text.split("\n"):
        stripped = line.lstrip()
        is_fence = stripped.startswith("```")
        if is_fence or is_code or not stripped or stripped.startswith(NO_PARAGRAPH):
            end()
            lines.append(line)
            is_code ^= is_fence
        else:
            if re.match(r"\s*([-*+]|\d+\.) ", line):
                end()
            paragraph.append(line)
    end()
    return "\n".join(lines)


def _wrapped(paragraph: list[str]) -> list[str]:
    found = ITEM.match(paragraph[0])
    assert found is not None
    first, rest = found[0], " " * len(found[0])
    words = " ".join(line.strip() for line in (paragraph[0][len(first) :], *paragraph[1:]))
    whole = WHOLE.sub(lambda one: one[0].replace(" ", "\0"), words)
    lines: list[str] = []
    for line in textwrap.wrap(
        whole,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        if lines and MARKUP.match(line.strip()):  # it takes the word before along
            lines[-1], _, word = lines[-1].rpartition(" ")
            lines.append(f"{rest}{word} {line.strip()}")
        else:
            lines.append(line)
    return [line.replace("\0", " ") for line in lines]


def main() -> None:
    for path in documents():
        text = path.read_text(encoding="utf-8")
        path.write_text(wrapped(text), encoding="utf-8")


if __name__ == "__main__":
    main()
