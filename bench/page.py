"""The report as one page without anything to load: ratios first, drawn, then the figures of each side.

Pure: rows in, HTML out. Bars are logarithmic around 1; a red cell is below its goal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bench import report
from bench.goals import goal_of
from bench.run import Row

BAR_PIXELS = 40
"""To each side of 1."""
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #1c2430; }
table { border-collapse: collapse; margin: 0 0 2rem; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #e4e7eb; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
td.below { background: #fde4e1; }
small { color: #66707c; }
svg { vertical-align: middle; margin-left: .5rem; }
"""


def draw(rows: Sequence[Row], machine: Mapping[str, Any], *, is_beside_kafka: bool) -> str:
    """Return the page. is_beside_kafka: whether the second side is Kafka, so that goals are shown."""
    title = f"Springtide beside Kafka {machine['kafka']}" if is_beside_kafka else "Springtide"
    parts = [f"<h1>{escape(title)}</h1>"]
    compared = [row for row in rows if row.ratios is not None]
    if compared:
        parts.append(_ratio_table(compared, is_judged=is_beside_kafka))
    if pairs := report.beside(rows):
        heads = ["case", "beside", "side", *(head for _, head in report.RATIO_NAMES)]
        lines = [
            [_text(row.case.name), _text(row.case.beside), _text(side), *(_ratio(r) for r in _values(ratios))]
            for row, side, ratios in pairs
        ]
        parts.append(_table("What it costs each side: times as good as the row beside it", heads, lines))
    parts.append(_figure_table(rows))
    facts = "; ".join(report.machine_lines(dict(machine)))
    notes = [*report.legend(client_rows=any(row.case.kind.is_client for row in rows)), facts]
    parts += [f"<p><small>{escape(note)}</small></p>" for note in notes]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _ratio_table(rows: Sequence[Row], *, is_judged: bool) -> str:
    heads = ["case", *(head for _, head in report.RATIO_NAMES), "of the pipe"]
    lines = []
    for row in rows:
        assert row.ratios is not None
        goal, below = goal_of(row.case), report.missed(row) if is_judged else {}
        cells = [_text(f"{row.case.name}", title=row.case.description)]
        for field, _ in report.RATIO_NAMES:
            least = getattr(goal, field, None) if is_judged else None
            is_below = field in below or (field == "cpu" and "idle CPU" in below)
            cells.append(_ratio(getattr(row.ratios, field), goal=least, is_below=is_below))
        share = report.share_text(row.pipe_share)
        cells.append(f"<td{' class=below' if 'pipe' in below else ''}>{share}</td>")
        lines.append(cells)
    return _table("How many times better, median of the rounds (small: the goal)", heads, lines)


def _figure_table(rows: Sequence[Row]) -> str:
    lines = [
        [_text(row.case.name if number == 0 else ""), _text(side), *map(_text, report.cells(figures))]
        for row in rows
        for number, (side, figures) in enumerate(row.medians.items())
    ]
    return _table("Figures of each side", report.HEAD, lines)


def _table(caption: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in lines)
    return f"<table><caption>{escape(caption)}</caption>\n<tr>{top}</tr>\n{body}\n</table>"


def _text(text: str, *, title: str = "") -> str:
    about = f' title="{escape(title)}"' if title else ""
    return f"<td{about}>{escape(text)}</td>"


def _values(ratios: Any) -> list[float | None]:
    return [getattr(ratios, field) for field, _ in report.RATIO_NAMES]


def _ratio(value: float | None, *, goal: float | None = None, is_below: bool = False) -> str:
    if value is None:
        return "<td>-</td>"
    told = "" if goal is None else f" <small>{goal:g}</small>"
    return f"<td{' class=below' if is_below else ''}>{report.ratio_text(value)}{told}{_bar(value)}</td>"


def _bar(ratio: float) -> str:
    """A bar from the middle to the right for better, to the left for worse."""
    length = 0.0
    if ratio > 0:
        length = math.log(ratio) / math.log(report.BAR_RATIO_MAX) * BAR_PIXELS
        length = max(-BAR_PIXELS, min(BAR_PIXELS, length))
    colour = "#2f855a" if length >= 0 else "#c53030"
    x = BAR_PIXELS + min(0.0, length)
    return (
        f'<svg width="{2 * BAR_PIXELS}" height="10" aria-hidden="true">'
        f'<rect x="{x:.1f}" width="{abs(length):.1f}" height="10" fill="{colour}"/>'
        f'<path d="M{BAR_PIXELS} 0V10" stroke="#66707c"/></svg>'
    )
