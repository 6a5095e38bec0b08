"""The page: ratios first, goals marked, everything in one file."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from bench.cases import CASES
from bench.figures import Ratios
from bench.page import draw
from bench.run import Row
from tests.kit.bench import FIGURES

BASE, VARIANT = (
    next(case for case in CASES if case.name == name)
    for name in ("produce-all-66k-4x4", "produce-all-66k-4x4-tls")
)


class Cells(HTMLParser):
    """The text of each cell and its class."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._is_in = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "td":
            self.found.append(("", dict(attrs).get("class") or ""))
            self._is_in = True

    def handle_endtag(self, tag: str) -> None:
        self._is_in = self._is_in and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._is_in:
            text, kind = self.found[-1]
            self.found[-1] = (text + data, kind)


def row() -> Row:
    return Row(
        case=BASE,
        rounds={},
        medians={"springtide": FIGURES, "kafka": FIGURES},
        ratios=Ratios(throughput=1.9, p50=3.0, p99=0.5, cpu=1.0, memory=None),
        pipe_share=0.5,
    )


def test_ratios_come_first_and_what_is_below_its_goal_is_marked() -> None:
    cells = Cells(draw([row()], {"kafka": "4.3.1"}, is_beside_kafka=True)).found
    assert cells[:7] == [
        (BASE.name, ""),
        ("1.90x 2", "below"),
        ("3.00x 1", ""),
        ("0.50x 1", "below"),
        ("1.00x 1", ""),
        ("-", ""),
        ("50%", "below"),
    ]


def test_without_kafka_no_row_is_judged() -> None:
    page = draw([row()], {}, is_beside_kafka=False)
    assert all(kind == "" for _, kind in Cells(page).found)


def test_a_row_stands_beside_another_one_on_each_side() -> None:
    slower = replace(FIGURES, records_per_s=FIGURES.records_per_s / 2)
    variant = replace(row(), case=VARIANT, medians={"springtide": slower, "kafka": FIGURES})
    cells = [text for text, _ in Cells(draw([row(), variant], {}, is_beside_kafka=False)).found]
    first = cells.index(BASE.name, cells.index(VARIANT.name))
    assert cells[first - 1 : first + 3] == [VARIANT.name, BASE.name, "springtide", "0.50x"]


def test_the_page_loads_nothing_and_shows_names_as_text() -> None:
    page = draw([row()], {"kafka": "<b>4</b>"}, is_beside_kafka=True)
    assert "<b>" not in page
    assert "http" not in page and "src=" not in page
