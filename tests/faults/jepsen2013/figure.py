"""Draws the runs as bars: of all integers, those acknowledged and there, acknowledged and lost, and refused.

Pure: rows in, SVG out, without anything that a renderer might not have. The committed drawing is
`docs/jepsen-2013.svg`; `python -m tests.faults.jepsen2013 --figure docs/jepsen-2013.svg` draws it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tests.faults.jepsen2013.report import Row

WIDTH = 860
LEFT = 236
RIGHT = 24
TOP = 70
BAR_HEIGHT = 34
BAR_PITCH = 62
BOTTOM = 52
LABEL_PIXELS_MIN = 34
"""A narrower piece has no number in it."""


@dataclass(frozen=True, slots=True)
class Piece:
    title: str
    fill: str
    ink: str


KEPT = Piece("acknowledged, read back", "#3d8a55", "#ffffff")
LOST = Piece("acknowledged, lost", "#c0392b", "#ffffff")
REFUSED = Piece("refused or timed out", "#d9dee8", "#1d2a3e")
PIECES = (KEPT, LOST, REFUSED)


@dataclass(frozen=True, slots=True)
class Bar:
    """kept + lost is what was acknowledged."""

    name: str
    note: str
    kept: int
    lost: int
    refused: int

    @classmethod
    def of(cls, row: Row) -> Bar:
        note = f"{row.acked} acknowledged, {row.lost} lost"
        return cls(row.name, note, row.acked - row.lost, row.lost, row.total - row.acked)

    @property
    def counts(self) -> tuple[int, int, int]:
        return (self.kept, self.lost, self.refused)


def render_svg(bars: Sequence[Bar]) -> str:
    """Bars of one scale: the full width is the largest total."""
    height = TOP + BAR_PITCH * len(bars) + BOTTOM
    most = max(sum(bar.counts) for bar in bars)
    scale = (WIDTH - LEFT - RIGHT) / most
    label = "; ".join(f"{bar.name}: {bar.note}" for bar in bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="14" role="img" '
        f'aria-label="{escape(label, {chr(34): "&quot;"})}">',
        f'  <rect width="{WIDTH}" height="{height}" rx="10" fill="#fbfcfe"/>',
        '  <text x="28" y="36" font-size="16" font-weight="bold" fill="#1d2a3e">'
        f"{most} integers while the leader is cut off, and what became of them</text>",
    ]
    for number, bar in enumerate(bars):
        lines += _render_bar(bar, TOP + number * BAR_PITCH, scale)
    lines += _render_legend(height - 24)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _render_bar(bar: Bar, y: int, scale: float) -> list[str]:
    lines = [
        f'  <text x="28" y="{y + 15}" font-weight="bold" fill="#1d2a3e">{escape(bar.name)}</text>',
        f'  <text x="28" y="{y + 32}" font-size="12" fill="#4a5872">{escape(bar.note)}</text>',
    ]
    x = float(LEFT)
    for piece, count in zip(PIECES, bar.counts, strict=True):
        width = count * scale
        if count:
            lines.append(
                f'  <rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" fill="{piece.fill}"/>'
            )
        if count and width >= LABEL_PIXELS_MIN:
            lines.append(
                f'  <text x="{x + width / 2:.1f}" y="{y + 22}" text-anchor="middle" fill="{piece.ink}">'
                f"{count}</text>"
            )
        x += width
    return lines


def _render_legend(y: int) -> list[str]:
    lines = []
    for number, piece in enumerate(PIECES):
        x = LEFT + number * 200
        lines.append(f'  <rect x="{x}" y="{y - 11}" width="14" height="14" fill="{piece.fill}"/>')
        lines.append(f'  <text x="{x + 20}" y="{y}" font-size="12" fill="#4a5872">{piece.title}</text>')
    return lines
