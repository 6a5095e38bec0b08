"""The table of all rows, as markdown: it reads well in a terminal, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.pipeline_proof.part import Part
from tests.pipeline_proof.plan import ROWS, Row
from tests.proof.table import rows_as_table, shown


def row_holds(row: Row, parts: Sequence[Part], missing: Sequence[str]) -> bool:
    """False also when one of its parts did not run, or it has none."""
    own = [part for part in parts if part.row == row.number]
    return bool(own) and all(part.is_ok for part in own) and not _missing_of(row, missing)


def _missing_of(row: Row, missing: Sequence[str]) -> list[str]:
    return [name for name in missing if int(name[:2]) == row.number]


def render(parts: Sequence[Part], missing: Sequence[str], *, subject: str, rows: Sequence[Row] = ROWS) -> str:
    """`subject`: what was tried, such as a commit. `missing`: names of parts that should be there. `rows`:
    those that were asked for. What does not hold comes first."""
    blocks = [f"# The pipeline's proof: {subject}"]
    wrong = [f"- {part.name}: {failure}" for part in parts for failure in part.failures]
    wrong += [f"- {name}: did not run to its end" for name in missing]
    if not all(row_holds(row, parts, missing) for row in rows):
        blocks.append("\n\n".join(["**It does not hold.**", "\n".join(wrong)]).strip())
    blocks.append(
        rows_as_table(
            ["row", "holds if", "result", "seconds", "missing", "duplicates", "inversions"],
            [_summary(row, parts, missing) for row in rows],
        )
    )
    beyond = [f"- {part.name}: {line}" for part in parts for line in part.beyond_reach]
    if beyond:
        blocks.append("## Asked for, and not possible on this machine\n\n" + "\n".join(beyond))
    for part in parts:
        figures = [[name, shown(value)] for name, value in part.figures.items()]
        figures += [[f"fault: {kind}", shown(times)] for kind, times in part.faults.items()]
        if figures:
            blocks.append(f"## {part.name}\n\n" + rows_as_table(["figure", "value"], figures))
    return "\n\n".join(blocks) + "\n"


def _summary(row: Row, parts: Sequence[Part], missing: Sequence[str]) -> list[str]:
    own = [part for part in parts if part.row == row.number]
    title = f"{row.number:2} {row.measure}"
    absent = _missing_of(row, missing)
    if not own:
        return [title, row.passes_if, "DID NOT RUN", "", "", "", ""]
    total: Counter[str] = Counter()
    for part in own:
        total.update(missing=part.missing, duplicates=part.duplicates, inversions=part.inversions)
    is_ok = all(part.is_ok for part in own)
    result = "FAILED" if not is_ok else "INCOMPLETE" if absent else "held"
    return [
        title,
        row.passes_if,
        result,
        f"{sum(part.seconds for part in own):,.0f}",
        *(shown(total[name]) for name in ("missing", "duplicates", "inversions")),
    ]
