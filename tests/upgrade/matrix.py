"""Walks between the last release and this one, on real processes under load: `make upgrade-proof`.

Each walk has seven processes of the last release: two controllers, three brokers, two coordinators. Some of
them, each number once, are rolled to this release, then rolled back; then all are rolled to this release, and
the level is finalized. A broker or coordinator that is started as the last release after that is refused.
Processes are killed on the way, in an order that is drawn from a seed. Stock clients write and read all the
time; an operator changes something after each phase.

In the end every acknowledged record has to be there, once, every replica has to hold the same, and nothing
may be unreadable: no log, no row of metadata, no row of the history, whichever release was asked.

    python -m tests.upgrade.matrix --walks 8 --seed 1
    python -m tests.upgrade.matrix --size ci        two of the eight, drawn from the seed

Exit status: 0 all held; 1 something did not; 3 the last release can't be built here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from localcluster.__main__ import Narrator
from localcluster.cluster import CANNOT_RUN
from localcluster.processes import exit_on_sigterm
from tests.proof.part import DIRECTORY, Part, save
from tests.proof.plan import committed_seed
from tests.proof.table import rows_as_table, shown
from tests.upgrade.last_release import NAMED, LastReleaseUnavailable, named, python
from tests.upgrade.paths import draw_walks
from tests.upgrade.walk import Course, run_walk

REPORT = Path("build/upgrade-proof.md")
WALKS = {"ci": 2, "full": 8}
EXIT_OK, EXIT_FAILED, EXIT_UNAVAILABLE = 0, 1, 3
HEADS = (
    "path",
    "rolls",
    "faults",
    "seconds",
    "records",
    "longest stall ms",
    "lost",
    "doubled",
    "unreadable",
    "level",
)


def path_of(course: Course) -> str:
    """Return the way of a walk in words."""
    number = course.walk.rolled
    there = f"{number} of 7 there and back, " if number else ""
    finalized = "" if course.level is None else ", finalized"
    return f"{there}all there{finalized} (seed {course.walk.seed})"


def render(courses: Sequence[Course], *, subject: str) -> str:
    rows = [
        (
            path_of(each),
            shown(each.rolled),
            ", ".join(f"{kind} {count}" for kind, count in sorted(each.faults.items())) or "none",
            shown(round(each.seconds)),
            shown(each.records),
            shown(each.longest_stall_ms),
            shown(each.lost),
            shown(each.doubled),
            shown(len(each.unreadable)),
            "-" if each.level is None else str(each.level),
        )
        for each in courses
    ]
    total = (
        "all",
        shown(sum(each.rolled for each in courses)),
        shown(sum(sum(each.faults.values()) for each in courses)),
        shown(round(sum(each.seconds for each in courses))),
        shown(sum(each.records for each in courses)),
        shown(max((each.longest_stall_ms for each in courses), default=0)),
        shown(sum(each.lost for each in courses)),
        shown(sum(each.doubled for each in courses)),
        shown(sum(len(each.unreadable) for each in courses)),
        "",
    )
    wrong = [f"- {path_of(each)}: {line}" for each in courses for line in (*each.failures, *each.unreadable)]
    is_ok = all(each.is_ok for each in courses)
    verdict = "Everything held." if is_ok else "\n".join(["**It does not hold.**", "", *wrong])
    return f"# Upgrade proof: {subject}\n\n{verdict}\n\n{rows_as_table(HEADS, [*rows, total])}\n"


def to_part(courses: Sequence[Course], seed: int, seconds: float) -> Part:
    faults: Counter[str] = Counter()
    for each in courses:
        faults.update(each.faults)
    return Part(
        name="upgrade",
        seconds=round(seconds, 1),
        figures={
            "seed": seed,
            "walks": len(courses),
            "processes rolled": sum(each.rolled for each in courses),
            "records acknowledged": sum(each.records for each in courses),
            "longest stall s": round(max(each.longest_stall_ms for each in courses) / 1000, 1),
            "unreadable": sum(len(each.unreadable) for each in courses),
        },
        faults=dict(faults),
        failures=[
            f"{path_of(each)}: {line}" for each in courses for line in (*each.failures, *each.unreadable)
        ],
        lost=sum(each.lost for each in courses),
        inconsistent=sum(each.doubled for each in courses),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upgrade.matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--size", choices=sorted(WALKS), default="full", help="how many walks (default full: 8)"
    )
    parser.add_argument("--walks", type=int, help="how many walks, instead of the size's")
    parser.add_argument("--seed", type=int, help="default: that of tests/seeds")
    parser.add_argument("--part", type=Path, default=DIRECTORY, help="where the figures go")
    options = parser.parse_args(arguments)
    exit_on_sigterm()
    began_at = time.monotonic()
    tell = Narrator()
    try:
        last = python()
    except LastReleaseUnavailable as reason:
        print(f"no last release: {reason}", file=sys.stderr)
        return EXIT_FAILED if os.environ.get("CI_REQUIRED") else EXIT_UNAVAILABLE
    seed = committed_seed() if options.seed is None else options.seed
    release = named(NAMED.read_text(encoding="utf-8"))
    subject = f"from {release.commit[:12]} (level {release.level}) to this tree, seed {seed}"
    REPORT.parent.mkdir(exist_ok=True)
    courses: list[Course] = []
    walks = draw_walks(seed, options.walks or WALKS[options.size])
    for walk in walks:
        directory = Path(tempfile.mkdtemp(prefix="springtide-upgrade-"))
        number = f"walk {len(courses) + 1} of {len(walks)}"
        tell(f"--- {number}: {walk.rolled} of 7 there and back, seed {walk.seed}")
        try:
            course = run_walk(walk, last, directory, tell)
        except CANNOT_RUN as failure:
            course = Course(walk, failures=[f"{type(failure).__name__}: {failure}"])
        courses.append(course)
        text = render(courses, subject=subject)
        REPORT.write_text(text, encoding="utf-8")
        if course.is_ok:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            tell(f"logs and history are kept in {directory}")
    part = to_part(courses, seed, time.monotonic() - began_at)
    print(f"\n{text}\n{REPORT}; figures: {save(part, options.part)}")
    return EXIT_OK if part.is_ok else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
