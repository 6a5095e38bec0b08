"""The drawing shows the numbers that it was given, to scale, and is well-formed."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

COMMITTED = Path(__file__).parents[4] / "docs" / "jepsen-2013.svg"


def test_the_committed_drawing_shows_no_loss_with_our_defaults() -> None:
    root = ElementTree.fromstring(COMMITTED.read_text(encoding="utf-8"))
    label = root.attrib["aria-label"]
    ours = next(part for part in label.split("; ") if part.startswith("Springtide, defaults"))
    assert ours.endswith(" acknowledged, 0 lost")
    assert "Kafka 0.8 beta, 2013: 987 acknowledged, 520 lost" in label
