"""`python -m tests.simulation.teeth [--third 0|1|2] [--jobs 2]`: can the harness find a planted bug?

Each planted bug must be found by a scenario made for it or by the first few random seeds, and found rightly:
by a rule of docs/replication.md that does not hold, or by an assertion of the product's own. A scenario whose
moment the bug prevents, or an error in the harness itself, finds nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.proof.part import Part, save
from tests.simulation.options import ClusterOptions, draw_options
from tests.simulation.planted import PLANTS, Plant, planted
from tests.simulation.run import run_seed
from tests.simulation.scenarios.all import SCENARIOS
from tests.simulation.scenarios.registry import play

SCENARIO_SEEDS = range(3)
FAULTS_MS = 15_000
PRODUCT = ("controller", "dataplane")
#: A failure names its rule first: an invariant, a liveness goal, or a section of the rule book.
RULE = re.compile(r"([IL]\d+|\d\.\d+): ")
CRASH = re.compile(r"crash:? (\w+): .*\((?P<file>[^()]+):\d+\)$", re.DOTALL)
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Hunt:
    """What became of one bug. rule: None when it was not found. by: the scenario or the seed that found it.
    runs: how many scenarios and seeds were run, that one included. passed_over: failures that don't count."""

    bug: str
    rule: str | None
    by: str
    runs: int
    seconds: float
    passed_over: tuple[str, ...]


def verdict_of(failure: str | None) -> str | None:
    """The rule that this failure violates, or the product's assertion that did not hold; else None."""
    if failure is None:
        return None
    rule = RULE.match(failure)
    if rule is not None:
        return rule.group(1)
    crash = CRASH.match(failure)
    if crash is not None:
        path = Path(crash["file"])
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PRODUCT:
            return f"{crash[1]} in {path.name}"
    return None


def hunting_options(seed: int) -> ClusterOptions:
    """What the seed draws, in little time: few partitions, much to write, much that breaks."""
    drawn = draw_options(seed)
    return dataclasses.replace(
        drawn,
        brokers=max(3, drawn.brokers),
        partitions=min(2, drawn.partitions),
        replication_factor=max(3, drawn.replication_factor),
        min_insync_replicas=max(2, drawn.min_insync_replicas),
        pace_ms=min(60, drawn.pace_ms),
        strike_pace_ms=min(500, drawn.strike_pace_ms),
        consumers=1,
        plain_producers=0,
        topics_max=0,
        faults_ms=FAULTS_MS,
        over_budget=False,
    )


def runs_for(bug: Plant) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """(what to run, how it fails): the scenarios made for it, then random seeds."""
    for seed in SCENARIO_SEEDS:
        for scenario in SCENARIOS:
            if scenario.number in bug.scenarios:
                yield scenario.number, lambda scenario=scenario, seed=seed: play(scenario, seed).failure
    for seed in range(bug.seeds_max):
        yield f"seed {seed}", lambda seed=seed: run_seed(seed, options=hunting_options(seed)).failure


def hunt(bug: Plant) -> Hunt:
    """Run with the bug until it is found or its seeds are used up. What fails without the bug as well has
    found something, but not this bug."""
    began = time.monotonic()
    passed_over: list[str] = []
    runs = 0
    for by, run in runs_for(bug):
        runs += 1
        with planted(bug):
            failure = run()
        rule = verdict_of(failure)
        if rule is not None and run() is None:
            return Hunt(bug.name, rule, by, runs, time.monotonic() - began, tuple(passed_over))
        if failure is not None:
            passed_over.append(f"{by}: {failure}" + (" (also without the bug)" if rule else ""))
    return Hunt(bug.name, None, "", runs, time.monotonic() - began, tuple(passed_over))


def hunt_by_name(name: str) -> Hunt:
    return hunt(next(bug for bug in PLANTS if bug.name == name))


def hunt_all(bugs: Sequence[Plant], *, jobs: int) -> list[Hunt]:
    """In parallel processes, those that may take longest first; in the order of `bugs`."""
    names = sorted(
        (bug.name for bug in bugs), key=lambda name: -next(b.seeds_max for b in bugs if b.name == name)
    )
    with get_context("fork").Pool(jobs) as pool:
        found: dict[str, Hunt] = {}
        for each in pool.imap_unordered(hunt_by_name, names):
            found[each.bug] = each
            print(f"{each.bug}: {each.rule} by {each.by}, {each.seconds:.1f} s", file=sys.stderr, flush=True)
    return [found[bug.name] for bug in bugs]


def table(bugs: Sequence[Plant], hunts: Sequence[Hunt]) -> str:
    rows = [("bug", "breaks", "found by", "rule", "runs", "s", "seen")]
    for bug, each in zip(bugs, hunts, strict=True):
        rows.append(
            (
                bug.name,
                bug.breaks,
                each.by or "NOT FOUND",
                each.rule or "-",
                str(each.runs),
                f"{each.seconds:.1f}",
                bug.seen,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def part_of(hunts: Sequence[Hunt], seconds: float) -> Part:
    """The figures, and one failure for each bug that got away."""
    found = [each for each in hunts if each.rule is not None]
    by_scenario = [each for each in found if not each.by.startswith("seed")]
    return Part(
        name="teeth",
        seconds=round(seconds, 1),
        figures={
            "planted bugs": len(hunts),
            "found": len(found),
            "found by a scenario": len(by_scenario),
            "found by a random seed": len(found) - len(by_scenario),
            "median runs to detection": statistics.median([each.runs for each in found] or [0]),
            "most runs to detection": max((each.runs for each in found), default=0),
        },
        failures=[f"{each.bug} was not found in {each.runs} runs" for each in hunts if each.rule is None],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.teeth", description=__doc__)
    parser.add_argument("bugs", nargs="*", help="names; all when none is given")
    parser.add_argument("--third", type=int, choices=(0, 1, 2), help="every third bug, from this one on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    unknown = set(arguments.bugs) - {bug.name for bug in PLANTS}
    if unknown:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    bugs = [bug for bug in PLANTS if not arguments.bugs or bug.name in arguments.bugs]
    if arguments.third is not None:
        bugs = bugs[arguments.third :: 3]
    began = time.monotonic()
    hunts = hunt_all(bugs, jobs=arguments.jobs)
    print(table(bugs, hunts))
    for each in hunts:
        for failure in each.passed_over[:3]:
            print(f"{each.bug}: does not count: {failure}")
    part = part_of(hunts, time.monotonic() - began)
    print(f"\n{part.figures}, {part.seconds} s")
    if not arguments.bugs:
        save(part)
    return 0 if part.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
