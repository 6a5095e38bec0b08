"""The matrix as text: a table for each side, what failed, what is missing and what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.interop.matrix import Cell
from tests.interop.rows import ROWS, WAITING

WORDS = {"not in this client": "-", "not compared": "."}
"""How a state is shown where its own name is too long."""


def render(cells: Sequence[Cell], versions: Mapping[str, str]) -> str:
    """Return the whole page, in Markdown that is aligned as text too."""
    parts = [_table(side, [cell for cell in cells if cell.side == side]) for side in _distinct("side", cells)]
    parts.append("`-`: not in this client. `.`: not compared.")
    for title, state in (("Failed", "failed"), ("Missing", "missing")):
        parts += _details(title, [cell for cell in cells if cell.state == state])
    parts.append("\n".join(["Waits:", "", *(f"- {row}: {why}" for row, why in WAITING.items())]))
    parts.append("\n".join(f"- {name}: {version}" for name, version in sorted(versions.items())))
    return "\n\n".join(parts) + "\n"


def _table(side: str, cells: Sequence[Cell]) -> str:
    titles = {row.name: row.title for row in ROWS}
    clients = _distinct("client", cells)
    states = {(cell.row, cell.client): WORDS.get(cell.state, cell.state) for cell in cells}
    lines = [[side, *clients]]
    lines += [[titles[row], *(states[row, client] for client in clients)] for row in _distinct("row", cells)]
    lines += [[row, *("waits" for _ in clients)] for row in WAITING]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def _details(title: str, cells: Sequence[Cell]) -> list[str]:
    """Return a list of what is worth a line, each line once."""
    lines: dict[str, None] = {}
    for cell in cells:
        match cell.state:
            case "failed":
                lines[f"- {cell.side}: {cell.client}, {cell.row}: {cell.detail}"] = None
            case _:
                lines[f"- {cell.client}: {cell.detail}"] = None
    return ["\n".join([f"{title}:", "", *lines])] if lines else []


def _distinct(attribute: str, cells: Sequence[Cell]) -> list[str]:
    return [*dict.fromkeys(getattr(cell, attribute) for cell in cells)]
