"""The table of all parts, as markdown: it reads well in a terminal, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.proof.part import Figure, Part


def shown(figure: Figure) -> str:
    """Thousands are separated; a fraction keeps what can be compared."""
    match figure:
        case bool() | str():
            return str(figure)
        case int():
            return f"{figure:,}"
        case float():
            return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


def rows_as_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns are padded; all but the first are set to the right."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "| " + " | ".join([first, *rest]) + " |"

    rule = (
        "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    )
    return "\n".join([line(heads), rule, *(line(row) for row in rows)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """For a terminal only: the first row is the heads, and columns are padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def render(parts: Sequence[Part], missing: Sequence[str], *, subject: str) -> str:
    """`subject`: what was tried, such as a commit. Failures come first."""
    blocks = [f"# Proof: {subject}"]
    wrong = [f"- {part.name}: {failure}" for part in parts for failure in part.failures]
    wrong += [f"- {name}: did not run to its end" for name in missing]
    if wrong:
        blocks.append("**It does not hold.**\n\n" + "\n".join(wrong))
    summary = [
        [
            part.name,
            "held" if part.is_ok else "FAILED",
            f"{part.seconds:,.0f}",
            shown(sum(part.faults.values())),
            shown(len(part.faults)),
            shown(part.lost),
            shown(part.inconsistent),
        ]
        for part in parts
    ]
    summary += [[name, "DID NOT RUN", "", "", "", "", ""] for name in missing]
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.faults)
    summary.append(
        [
            "all",
            "held" if not wrong and all(part.is_ok for part in parts) else "FAILED",
            f"{sum(part.seconds for part in parts):,.0f}",
            shown(sum(total.values())),
            shown(len(total)),
            shown(sum(part.lost for part in parts)),
            shown(sum(part.inconsistent for part in parts)),
        ]
    )
    heads = ["part", "result", "seconds", "faults", "kinds", "lost", "inconsistent"]
    blocks.append(rows_as_table(heads, summary))
    for part in parts:
        figures = [[name, shown(value)] for name, value in part.figures.items()]
        blocks.append(f"## {part.name}\n\n" + rows_as_table(["figure", "value"], figures))
    if total:
        by_kind = [
            [
                kind,
                *(shown(part.faults[kind]) if kind in part.faults else "" for part in parts if part.faults),
            ]
            for kind in sorted(total)
        ]
        names = [part.name for part in parts if part.faults]
        blocks.append("## faults by kind\n\n" + rows_as_table(["kind", *names], by_kind))
    return "\n\n".join(blocks) + "\n"
