"""Move the files of changes/ into CHANGELOG.md, below the release that springtide/version.py names:
`python packaging/changelog.py`. With `--check`, change nothing and fail if a file is wrong.

changes/README.md says how a file is written.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("added", "changed", "fixed", "security")
NAME = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")
CHARS_MAX = 400
COLUMNS = 100

Fragments = Mapping[str, Sequence[str]]
"""The bullets of each kind, in the order of the files' names."""


class ChangeInvalid(Exception):
    """A file of changes/ is not as changes/README.md says; the message says which and why."""


def read_fragments(folder: Path) -> Fragments:
    """Return the bullets that lie in the folder. Raise ChangeInvalid."""
    found: dict[str, list[str]] = {}
    for path in files(folder):
        name = NAME.fullmatch(path.name)
        if name is None:
            raise ChangeInvalid(f"changes/{path.name}: the name must be <words>.<{'|'.join(KINDS)}>.md")
        text = " ".join(path.read_text(encoding="utf-8").split()).removeprefix("- ")
        if not 0 < len(text) <= CHARS_MAX:
            raise ChangeInvalid(f"changes/{path.name}: has {len(text)} characters, not 1 to {CHARS_MAX}")
        found.setdefault(name.group(1), []).append(text)
    return found


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "README.md")


def with_release(changelog: str, version: str, fragments: Fragments, *, day: str) -> str:
    """Return the changelog with these bullets in the entry of the version, which is made if there is none
    yet. day: of a new entry, as 2026-11-30."""
    head, *entries = re.split(r"(?m)^(?=## )", changelog)
    if not entries or not entries[0].startswith(f"## [{version}]"):
        entries.insert(0, f"## [{version}] - {day}\n\n")
    title, *sections = re.split(r"(?m)^(?=### )", entries[0])
    by_kind = {section.split()[1].lower(): section.rstrip("\n") for section in sections}
    for kind, bullets in fragments.items():
        section = by_kind.setdefault(kind, f"### {kind.capitalize()}")
        by_kind[kind] = "\n".join([section, *_wrapped(bullets)])
    ordered = sorted(by_kind, key=KINDS.index)
    entries[0] = title + "".join(f"{by_kind[kind]}\n\n" for kind in ordered)
    return (head + "".join(entries)).rstrip("\n") + "\n"


def _wrapped(bullets: Sequence[str]) -> Iterator[str]:
    for bullet in bullets:
        yield from textwrap.wrap(
            bullet,
            COLUMNS,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def main(arguments: Sequence[str]) -> int:
    sys.path.insert(0, str(ROOT))
    from springtide.version import VERSION  # noqa: PLC0415 - found in this checkout, not where it is installed

    changelog, folder = ROOT / "CHANGELOG.md", ROOT / "changes"
    try:
        fragments = read_fragments(folder)
    except ChangeInvalid as error:
        print(f"changelog: {error}", file=sys.stderr)
        return 1
    if "--check" not in arguments:
        text = changelog.read_text(encoding="utf-8")
        day = datetime.now(tz=UTC).date().isoformat()
        changelog.write_text(with_release(text, VERSION, fragments, day=day), encoding="utf-8")
        for path in files(folder):
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
