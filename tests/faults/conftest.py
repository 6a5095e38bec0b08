"""Clusters that may be broken, and the table of figures that the fault tests leave behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from localcluster.cluster import LocalCluster

FIGURES = pytest.StashKey[dict[str, list[float]]]()
FIGURES_FILE = Path("build/faults.json")


@pytest.fixture(scope="module")
def breakable_cluster() -> Iterator[LocalCluster]:
    """Three brokers, two controllers and a ZooKeeper for the tests of one module to kill and mend."""
    with LocalCluster(controllers=2) as cluster:
        cluster.form()
        yield cluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Three brokers and a controller for one test to break."""
    with LocalCluster() as started:
        started.form()
        yield started


@pytest.fixture
def note_recovery(pytestconfig: pytest.Config) -> Callable[[str, list[float]], None]:
    """Notes the seconds to the next acknowledged write after each kill of a role, for the table at the
    end."""

    def note(role: str, seconds: list[float]) -> None:
        pytestconfig.stash.setdefault(FIGURES, {}).setdefault(role, []).extend(seconds)

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints median and worst recovery of each role, and leaves the same in `build/faults.json`."""
    figures = config.stash.get(FIGURES, {})
    if not figures:
        return
    terminalreporter.section("time to the next acknowledged write")
    terminalreporter.write_line(f"{'killed':<28}{'rounds':>8}{'median ms':>12}{'worst ms':>12}")
    rows = {}
    for role, seconds in figures.items():
        row = {
            "rounds": len(seconds),
            "median_ms": round(median(seconds) * 1000),
            "worst_ms": round(max(seconds) * 1000),
        }
        rows[role] = row
        terminalreporter.write_line(
            f"{role:<28}{row['rounds']:>8}{row['median_ms']:>12}{row['worst_ms']:>12}"
        )
    FIGURES_FILE.parent.mkdir(exist_ok=True)
    FIGURES_FILE.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
