"""The figures for people: an aligned table, bars for ratios, and what the machine was.

Pure: rows in, lines out. Bars are logarithmic around 1, so that twice as good and half as good are as long.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bench.figures import Figures, Ratios, compare
from bench.goals import goal_of, misses
from bench.run import Row

BAR_CELLS = 12
"""Cells to each side of 1."""
BAR_RATIO_MAX = 16.0
"""A ratio that fills its side."""
RATIO_NAMES = (
    ("throughput", "throughput"),
    ("p50", "p50"),
    ("p99", "p99"),
    ("cpu", "CPU"),
    ("memory", "memory"),
)

HEAD = (
    "case",
    "side",
    "MB/s",
    "ops/s",
    "records/s",
    "p50 ms",
    "p99 ms",
    "CPU s/GB",
    "CPU us/op",
    "RSS MB",
    "cores",
    "client",
)


def ratio_bar(ratio: float | None) -> str:
    """`     |====        ` for better than 1, `   ==|            ` for worse; blank for None."""
    width = 2 * BAR_CELLS + 1
    if ratio is None or ratio <= 0:
        return " " * width
    length = math.log(ratio) / math.log(BAR_RATIO_MAX) * BAR_CELLS
    cells = min(BAR_CELLS, round(abs(length)))
    left = ("=" * cells if length < 0 else "").rjust(BAR_CELLS)
    right = ("=" * cells if length > 0 else "").ljust(BAR_CELLS)
    return f"{left}|{right}"


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def cells(figures: Figures) -> list[str]:
    return [
        _number(figures.mb_per_s),
        _number(figures.operations_per_s, 0),
        _number(figures.records_per_s, 0),
        _number(figures.p50_ms, 2),
        _number(figures.p99_ms, 2),
        _number(figures.broker_cpu_s_per_gb, 2),
        _number(figures.broker_cpu_s_per_million),
        _number(figures.broker_rss_mb, 0),
        _number(figures.broker_cores, 2),
        _number(figures.load_cores, 2),
    ]


def table(rows: Sequence[Row]) -> list[str]:
    """The figures of every case and side, aligned."""
    lines: list[list[str]] = [list(HEAD)]
    for row in rows:
        for number, (side, figures) in enumerate(row.medians.items()):
            lines.append([row.case.name if number == 0 else "", side, *cells(figures)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    aligned = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return [aligned[0], "-" * max(map(len, aligned)), *aligned[1:]]


def ratio_table(rows: Sequence[Row]) -> list[str]:
    """How many times better the first side is, a row a case; the bar is throughput's."""
    compared = [(row, row.ratios) for row in rows if row.ratios is not None]
    if not compared:
        return []
    width = max(len("case"), *(len(row.case.name) for row, _ in compared))
    heads = "".join(head.rjust(11) for _, head in RATIO_NAMES) + "pipe".rjust(7)
    bar_head = f"1/{BAR_RATIO_MAX:g}".ljust(BAR_CELLS) + "1" + f"{BAR_RATIO_MAX:g}".rjust(BAR_CELLS)
    lines = [f"{'case'.ljust(width)}{heads}   {bar_head}"]
    lines.append("-" * len(lines[0]))
    for row, ratios in compared:
        values = "".join(ratio_text(getattr(ratios, field)).rjust(11) for field, _ in RATIO_NAMES)
        values += share_text(row.pipe_share).rjust(7)
        lines.append(f"{row.case.name.ljust(width)}{values}   {ratio_bar(ratios.throughput)}".rstrip())
    return lines


def ratio_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def share_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def pipe_lines(rows: Sequence[Row]) -> list[str]:
    """How much of the plain copy loop's throughput the first side reaches, where there is no other side."""
    return [
        f"{row.case.name}: {share_text(row.pipe_share)} of what a plain copy loop moves"
        for row in rows
        if row.pipe_share is not None
    ]


def beside(rows: Sequence[Row]) -> list[tuple[Row, str, Ratios]]:
    """Return, for each row that has a case beside it, and for each side, how many times as good its figures
    are as there. Throughput is that of records: they are the same, their compressed bytes are not."""
    by_name = {row.case.name: row for row in rows}
    return [
        (row, side, compare(figures, base.medians[side], throughput="records_per_s"))
        for row in rows
        if (base := by_name.get(row.case.beside)) is not None
        for side, figures in row.medians.items()
        if side in base.medians
    ]


def beside_table(rows: Sequence[Row]) -> list[str]:
    """What it costs each side, a line for each row and side."""
    compared = beside(rows)
    if not compared:
        return []
    width = max(len(f"{row.case.name} / {row.case.beside}") for row, _, _ in compared)
    lines = [f"{'case / beside'.ljust(width)}  {'side':<12}" + "".join(h.rjust(11) for _, h in RATIO_NAMES)]
    for row, side, ratios in compared:
        values = "".join(ratio_text(getattr(ratios, field)).rjust(11) for field, _ in RATIO_NAMES)
        lines.append(f"{f'{row.case.name} / {row.case.beside}'.ljust(width)}  {side:<12}{values}")
    return lines


def missed(row: Row) -> dict[str, str]:
    """Return what the first side misses of the row's goal, see goals.py."""
    ours = next(iter(row.medians.values()))
    return misses(goal_of(row.case), ratios=row.ratios, pipe_share=row.pipe_share, ours=ours)


def below_goal(rows: Sequence[Row]) -> list[str]:
    """A line for each row that is below its goal."""
    return [
        f"  {row.case.name}: " + ", ".join(f"{name} {text}" for name, text in found.items())
        for row in rows
        if (found := missed(row))
    ]


def verdict(rows: Sequence[Row], *, ours: str, theirs: str) -> list[str]:
    """Where the other side is better: what to work on next."""
    behind = [
        f"  {row.case.name}: {', '.join(lost)}"
        for row in rows
        if row.ratios is not None and (lost := _lost(row.ratios))
    ]
    if not behind:
        return [f"{ours} is ahead of {theirs} in every figure of every row."]
    return [f"Where {theirs} is ahead of {ours}:", *behind]


def _lost(ratios: Ratios) -> list[str]:
    return [
        f"{head} {value:.2f}x"
        for field, head in RATIO_NAMES
        if (value := getattr(ratios, field)) is not None and value < 1
    ]


def disturbance(rows: Sequence[Row], *, processors: int) -> str | None:
    """A warning if others used so much of the machine that figures are doubtful."""
    most = max((figures.other_cores for row in rows for figures in row.medians.values()), default=0.0)
    if most < 0.25 * processors:
        return None
    return (
        f"Disturbed: up to {most:.2f} of {processors} cores were busy with something else than brokers and "
        "load. Trust ratios more than figures, and run again on a quiet machine."
    )


def legend(*, client_rows: bool) -> list[str]:
    lines = [
        "ops: requests; records in client-* rows and catch-up, seconds of a node in idle-* rows.",
        "CPU: of the broker processes, user and system. Rows of side pipe: a plain copy loop, see pipe.py.",
        "RSS: the largest broker, with its workers.",
        "cores: processor time of the brokers a second; client: the same of the load generator.",
    ]
    if client_rows:
        lines.append(
            "Where a client takes a core (1.00), the row measures the client as much as the brokers."
        )
    return lines


def machine_lines(machine: dict[str, Any]) -> list[str]:
    return [f"{key.replace('_', ' ')}: {value}" for key, value in machine.items()]


def side_by_side(
    found: Mapping[str, Mapping[str, float | None]],
    units: Mapping[str, str],
    *,
    more_is_better: Collection[str] = (),
) -> str:
    """Return a line for each figure in `units`: each side's, and how many times the first side's is as good
    as the second's."""
    lines = [
        f"{'':<56}" + "".join(f"{name:>14}" for name in found) + (f"{'times':>8}" if len(found) > 1 else "")
    ]
    for field, text in units.items():
        line = f"{text:<56}" + "".join(f"{float(figures[field] or 0):>14,.1f}" for figures in found.values())
        ratio = times(found, field, more_is_better)
        lines.append(line if ratio is None else f"{line}{ratio:>8.2f}")
    return "\n".join(lines)


def times(
    found: Mapping[str, Mapping[str, float | None]], field: str, more_is_better: Collection[str]
) -> float | None:
    """Return how many times the first side's figure is as good as the second's; None if one has none."""
    values = [figures[field] for figures in found.values()]
    if len(values) < 2 or not values[0] or not values[1]:
        return None
    return values[0] / values[1] if field in more_is_better else values[1] / values[0]
