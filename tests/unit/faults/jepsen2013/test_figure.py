"""The drawing shows the numbers that it was given, to scale, and is well-formed."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.faults.jepsen2013.figure import KEPT, LOST, REFUSED, Bar, render_svg
from tests.faults.jepsen2013.report import ORIGINAL, Row

SVG = "{http://www.w3.org/2000/svg}"
BARS = [Bar.of(ORIGINAL), Bar.of(Row("Ours & <others>", 1000, 742, 742, 0))]
COMMITTED = Path(__file__).parents[4] / "docs" / "jepsen-2013.svg"


def widths(root: ElementTree.Element, fill: str) -> list[float]:
    return [float(r.attrib["width"]) for r in root.iter(f"{SVG}rect") if r.attrib["fill"] == fill]


def test_pieces_are_as_wide_as_their_counts_and_legends_follow() -> None:
    root = ElementTree.fromstring(render_svg(BARS))
    per_integer = 0.6
    legend = 14.0
    assert widths(root, KEPT.fill) == pytest.approx([467 * per_integer, 742 * per_integer, legend], abs=0.1)
    assert widths(root, LOST.fill) == pytest.approx([520 * per_integer, legend], abs=0.1)
    assert widths(root, REFUSED.fill) == pytest.approx([13 * per_integer, 258 * per_integer, legend], abs=0.1)


def test_the_counts_are_written_into_the_pieces_that_have_room_and_said_to_who_cannot_see() -> None:
    root = ElementTree.fromstring(render_svg(BARS))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"467", "520", "742", "258", "Ours & <others>"} <= set(texts)
    assert "13" not in texts
    assert "987 acknowledged, 520 lost" in root.attrib["aria-label"]


def test_the_committed_drawing_shows_no_loss_with_our_defaults() -> None:
    root = ElementTree.fromstring(COMMITTED.read_text(encoding="utf-8"))
    label = root.attrib["aria-label"]
    ours = next(part for part in label.split("; ") if part.startswith("Springtide, defaults"))
    assert ours.endswith(" acknowledged, 0 lost")
    assert "Kafka 0.8 beta, 2013: 987 acknowledged, 520 lost" in label
