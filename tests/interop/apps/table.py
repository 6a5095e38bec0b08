"""The outcomes as a page: a row for each application, a column for each side, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.interop.apps.app import App
from tests.interop.apps.runs import Outcome


def render(apps: Sequence[App], outcomes: Sequence[Outcome]) -> str:
    """Return the whole page, in Markdown."""
    sides = [*dict.fromkeys(one.side for one in outcomes)]
    cells = {(one.app, one.side): one for one in outcomes}
    lines = [["application", "its job", *sides, "refused here"]]
    for app in apps:
        mine = [cells.get((app.name, side)) for side in sides]
        refused = "; ".join(line for one in mine if one is not None for line in one.refused) or "-"
        lines.append([app.name, app.job, *("." if one is None else _cell(one) for one in mine), refused])
    parts = [_table(lines), _count(outcomes, sides)]
    details = [f"- {one.side}, {one.app}: {one.verdict}: {one.detail}" for one in outcomes if one.detail]
    if details:
        parts.append("\n".join(["Why:", "", *details]))
    return "\n\n".join(parts) + "\n"


def render_needs(apps: Sequence[App]) -> str:
    """Return the table of what each application needs, as docs/applications.md has it."""
    return _table(
        [
            ["application", "its job in the test", "what it needs"],
            *([app.name, app.job, app.needs or "addresses and names"] for app in apps),
        ]
    )


def _cell(one: Outcome) -> str:
    return f"{one.verdict} ({one.seconds:.0f} s)" if one.seconds else one.verdict


def _count(outcomes: Sequence[Outcome], sides: Sequence[str]) -> str:
    lines = []
    for side in sides:
        verdicts: Mapping[str, int] = _tally([one.verdict for one in outcomes if one.side == side])
        lines.append(f"- {side}: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return "\n".join(lines)


def _tally(words: Sequence[str]) -> dict[str, int]:
    return {word: words.count(word) for word in dict.fromkeys(words)}


def _table(lines: Sequence[Sequence[str]]) -> str:
    head, *rows = (f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
    return "\n".join([head, "|" + " --- |" * len(lines[0]), *rows])
