"""What each family of faults on real processes has as its command: `python -m tests.faults.FAMILY`.

A story does what its module says and writes into its trial what was seen. Exit status 0: it held; 1: it did
not; 3: this machine can't run simulated hosts, which the story needs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException

from localcluster.__main__ import Narrator
from tests.faults.hosts.sandbox import enter_or_say_why_not
from tests.proof.part import DIRECTORY, Figure, Part, save

EXIT_OK, EXIT_FAILED, EXIT_UNAVAILABLE = 0, 1, 3
Size = TypeVar("Size")


class Trial:
    """One run of a story: where its files are, and what came of it, as in Part."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tell = Narrator()
        self.figures: dict[str, Figure] = {}
        self.faults: Counter[str] = Counter()
        self.failures: list[str] = []
        self.lost = self.inconsistent = 0

    def count(self, figure: str, more: int) -> None:
        self.figures[figure] = int(self.figures.get(figure, 0)) + more

    def must(self, what: str, holds: bool) -> None:
        self.tell(f"{'held' if holds else 'FAILED'}: {what}")
        if not holds:
            self.failures.append(what)


def run_family(
    family: str,
    story: Callable[[Trial, Size], None],
    sizes: Mapping[str, Size],
    *,
    needs_hosts: bool = False,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the story in the size that the command line asks for, leave its part; return the exit status."""
    purpose = sys.modules[story.__module__].__doc__
    parser = argparse.ArgumentParser(prog=f"python -m tests.faults.{family}", description=purpose)
    parser.add_argument("--size", choices=sorted(sizes), default="ci", help="how much (default ci)")
    parser.add_argument("--part", type=Path, default=DIRECTORY, help="where the figures go")
    options = parser.parse_args(arguments)
    if needs_hosts and not enter_or_say_why_not():
        return EXIT_UNAVAILABLE
    trial = Trial(Path(tempfile.mkdtemp(prefix=f"springtide-{family}-")))
    began_at = time.monotonic()
    try:
        story(trial, sizes[options.size])
    except (AssertionError, KafkaException, OSError, RuntimeError) as failure:
        trial.failures.append(f"{type(failure).__name__}: {failure}")
    part = Part(
        name=f"real-{family}",
        seconds=round(time.monotonic() - began_at, 1),
        figures=trial.figures,
        faults=dict(trial.faults),
        failures=trial.failures,
        lost=trial.lost,
        inconsistent=trial.inconsistent,
    )
    for name, figure in (part.figures | part.faults | {"lost": part.lost}).items():
        print(f"{name:<55} {figure}")
    for failed in part.failures:
        print(f"FAILED {failed}")
    print(f"figures: {save(part, options.part)}")
    if not part.is_ok:
        print(f"logs: {trial.directory}")
        return EXIT_FAILED
    shutil.rmtree(trial.directory, ignore_errors=True)
    return EXIT_OK
