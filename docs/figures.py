"""Write the figures in the documents: `python docs/figures.py`, or `python docs/figures.py NAME REPORT.json`.

A figure stands between `<!-- figures NAME -->` and `<!-- /figures -->`, in a sentence or as a table. It is
derived from the code, or from the one table that has it; or it is measured: then a command wrote a report
(MEASURED names it), and this program writes the report's figures. A test finds a block that is not what its
source says.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # started as a file, Python knows its folder only

import tests.simulation.faults  # noqa: E402, F401 - what it imports adds the kinds
from bench.groups import UNITS  # noqa: E402
from tests.powercuts.planted import PLANTS as STORAGE_PLANTS  # noqa: E402
from tests.proof.plan import Profile, steps  # noqa: E402
from tests.simulation.planted import PLANTS as REPLICATION_PLANTS  # noqa: E402
from tests.simulation.schedule import KINDS  # noqa: E402
from tests.upgrade.rolling import KINDS as UPGRADE_CLIENTS  # noqa: E402

BLOCK = re.compile(r"(<!-- figures ([\w-]+) -->\n?)(.*?)(<!-- /figures -->)", re.DOTALL)
#: README's rows of the table beside Kafka, in its words.
SPEED = {
    "many small requests in flight": "produce-all-100b-1x16",
    "batches of 1 MB": "produce-all-1m-2x3",
    "reading a backlog": "fetch-backlog-4x1",
    "one small request at a time on each of eight connections": "produce-all-100b-8x1",
}
RATIOS = ("throughput", "p50", "p99", "cpu", "memory")


def documents() -> Iterator[Path]:
    """Yield every document that people read, but the changes."""
    yield from (path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md")
    yield ROOT / "tests/README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def blocks() -> Iterator[tuple[Path, str, str]]:
    """Yield (document, name, text) of each block."""
    for path in documents():
        for found in BLOCK.finditer(path.read_text(encoding="utf-8")):
            yield path, found[2], found[3]


def written(text: str, figures: Mapping[str, str]) -> str:
    """Return a document's text with these figures in its blocks."""
    return BLOCK.sub(lambda found: f"{found[1]}{figures.get(found[2], found[3])}{found[4]}", text)


def beside_kafka_column(number: int) -> dict[str, str]:
    """Return a column of the table beside Kafka, by row."""
    (table,) = (text for _, name, text in blocks() if name == "beside-kafka")
    return {
        cells[1]: cells[number] for line in table.splitlines() if len(cells := re.split(r" *\| *", line)) > 2
    }


def memory() -> str:
    """Return how many times the memory of ours Kafka's brokers take: the median of the rows."""
    (_, _, *ratios) = beside_kafka_column(6).values()
    return f"{median(map(float, ratios)):.1f}"


def jepsen_2013() -> str:
    """Return how many of how many acknowledged writes Kafka lost, from the table that compares it with us."""
    trust = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
    found = re.search(r"^\| Kafka .*2013 \| \d+ \| (\d+) \| \d+ \| (\d+) \|$", trust, re.MULTILINE)
    assert found is not None
    return f"{found[2]} of {found[1]}"


def speed() -> str:
    """Return README's four rows of the table beside Kafka."""
    throughput = beside_kafka_column(2)
    rows = (f"| {what} | {throughput[row]} |\n" for what, row in SPEED.items())
    return "| what clients do | times the throughput of Kafka |\n|---|---:|\n" + "".join(rows)


def site() -> ModuleType:
    spec = spec_from_file_location("site_pages", ROOT / "docs/site.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kafka_apis() -> str:
    table: str = site().kafka_api_table()
    return table


def download() -> str:
    """Return how much an installation downloads, as `make install` says it."""
    found = re.search(r"about (\d+ MB)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def sizes() -> dict[str, int]:
    """Return how many seeds, cuts or requests each part of `make proof PROFILE=ci` tries."""
    size = re.compile(r"--(?:seeds|states|cuts|cases) (\d+)")
    commands = {step.parts[0]: " ".join(step.arguments) for step in steps(Profile.CI, 1, jobs=1)}
    return {part: int(found[1]) for part, command in commands.items() if (found := size.search(command))}


def families() -> dict[str, int]:
    return {part: size for part, size in sizes().items() if part.startswith("family-")}


def seeds() -> int:
    return sizes()["tier-a"] + sum(families().values()) + sizes()["tier-b"]


def beside_kafka(report: Any) -> str:
    """Return the table of `make bench KAFKA_HOME=DIR`: how many times better than Kafka each row is."""

    def cells(case: Any) -> Iterator[str]:
        yield case["case"]
        for name in RATIOS:
            ratio = case["ratios"][name]
            yield "" if ratio is None else f"{ratio:.2f}"
        yield "" if case["pipe_share"] is None else f"{case['pipe_share']:.0%}"

    head = ("row", "throughput", "p50", "p99", "processor time", "memory", "of a plain copy")
    rows = [head, *(tuple(cells(case)) for case in report["cases"] if case["ratios"])]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def groups(report: Any) -> str:
    """Return the table of `python -m bench groups --kafka-home DIR`."""
    sides = [name for name in report if name not in ("machine", "quick")]

    def cell(value: float | None) -> str:
        return "" if value is None else f"{value:,.{0 if value >= 50 else 1}f}"

    rows = [
        f"| {text} | {' | '.join(cell(report[side][field]) for side in sides)} |\n"
        for field, text in UNITS.items()
    ]
    return f"| what | {' | '.join(sides)} |\n|---|" + "---:|" * len(sides) + "\n" + "".join(rows)


def plans(report: Any) -> str:
    """Return the table of plans of `python -m bench control_plane`; a snapshot has no moves."""
    rows = [
        f"| {plan['name']} | {plan['milliseconds']:,.0f} | {format(plan['items'], ',') if number else ''} |\n"
        for number, plan in enumerate(report["plans"])
    ]
    return "| plan | ms | moves |\n|---|---:|---:|\n" + "".join(rows)


def upgrade_stalls(report: Any) -> str:
    """Return the table of `python -m tests.upgrade.rolling`: what happens, producers, consumers."""
    head = ("what happens", *UPGRADE_CLIENTS, "records doubled")
    lines = [f"| {' | '.join(head)} |\n|---|" + "---:|" * (len(head) - 1) + "\n"]
    for row in report["rows"]:
        cells = (row["what"], *(f"{stall:,}" for stall in row["stalls_ms"]), str(row["doubled"]))
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


#: Figures that another place has: the code, or a table that is measured.
DERIVED: dict[str, Callable[[], object]] = {
    "speed": speed,
    "memory": memory,
    "jepsen-2013": jepsen_2013,
    "kafka-apis": kafka_apis,
    "download": download,
    "seeds": seeds,
    "seeds-cores": lambda: sizes()["tier-a"],
    "seeds-family": lambda: max(families().values()),
    "seeds-whole": lambda: sizes()["tier-b"],
    "crash-states": lambda: sizes()["crash-states"],
    "power-cuts": lambda: sizes()["power-cuts"],
    "rest-requests": lambda: sizes()["rest"],
    "kinds-of-faults": lambda: len(KINDS),
    "planted-replication": lambda: len(REPLICATION_PLANTS),
    "planted-storage": lambda: len(STORAGE_PLANTS),
}
#: Figures that a report has, by the command that writes it.
MEASURED: dict[str, tuple[str, Callable[[Any], str]]] = {
    "beside-kafka": ("make bench KAFKA_HOME=DIR", beside_kafka),
    "groups": ("python -m bench groups --kafka-home DIR", groups),
    "plans": ("python -m bench control_plane", plans),
    "upgrade-stalls": ("python -m tests.upgrade.rolling", upgrade_stalls),
}


def derived() -> dict[str, str]:
    """Return each derived block's text."""
    return {name: _text(make()) for name, make in DERIVED.items()}


def _text(figure: object) -> str:
    """Return a number as it stands in a sentence, or a table with the empty lines that Markdown wants."""
    if isinstance(figure, int):
        return f"{figure:,}"
    return f"\n{figure}\n" if "|" in str(figure) else str(figure)


def main(arguments: list[str]) -> None:
    figures: dict[str, str] = {}
    if arguments:
        name, report = arguments
        figures[name] = _text(MEASURED[name][1](json.loads(Path(report).read_text(encoding="utf-8"))))
    for new in (figures, derived):  # what is derived may be derived from what was measured
        texts = new() if callable(new) else new
        for path in documents():
            text = path.read_text(encoding="utf-8")
            path.write_text(written(text, texts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
