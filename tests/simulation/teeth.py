"""`python -m tests.simulation.teeth [--jobs 2]`: can the harness find a planted bug?

Each planted bug must be found by a scenario made for it or by the first few random seeds, and found rightly:
by a rule of docs/replication.md or of the checker that does not hold, or by an assertion of the product's. A
scenario whose moment the bug prevents, or an error in the harness itself, finds nothing. At last the product
is put through the same runs without a bug, and each of them must pass.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.proof.part import Part, save
from tests.proof.plan import TURNS, of_turn
from tests.proof.table import aligned
from tests.simulation.options import ClusterOptions, draw_options, of_family
from tests.simulation.planted import PLANTS, Plant, planted
from tests.simulation.random_walks import walk_failure
from tests.simulation.run import run_seed
from tests.simulation.scenarios.all import SCENARIOS
from tests.simulation.scenarios.registry import play
from tests.upgrade.last_release import is_left_out

SCENARIO_SEEDS = range(3)
FAULTS_MS = 15_000
PRODUCT = ("controller", "coordinator", "dataplane")
CRASH = re.compile(r"crash (\w+): .*\((?P<file>[^()]+):\d+\)$", re.DOTALL)
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Of a scenario, or of a seed alone. family: of the seed's strikes. coordinators, compacted: of the
    seed's cluster. walks: what the seed is of instead (random_walks)."""

    seed: int
    scenario: str = ""
    family: str = ""
    coordinators: int = 0
    compacted: bool = False
    walks: str = ""

    @property
    def title(self) -> str:
        if self.walks:
            return f"walk {self.seed} of {self.walks}"
        return self.scenario.partition(" ")[0] if self.scenario else f"seed {self.seed}"

    def failure(self) -> tuple[str, str] | None:
        """(rule, what failed). A moment that was not reached has no rule: it is ""."""
        if self.walks:
            return walk_failure(self.walks, self.seed)
        if self.scenario:
            (scenario,) = (each for each in SCENARIOS if each.title == self.scenario)
            played = play(scenario, self.seed)
            return None if played.failure is None else (played.rule or "", played.failure)
        options = dataclasses.replace(
            of_family(hunting_options(self.seed), self.family),
            coordinators=self.coordinators,
            compacted=self.compacted,
        )
        if self.compacted:
            options = dataclasses.replace(options, in_flight_max=1)
        verdict = run_seed(self.seed, options=options)
        return None if verdict.failure is None else (verdict.rule or "", verdict.failure)


@dataclass(frozen=True, slots=True)
class Hunt:
    """What became of one bug. rule: None when it was not found. runs: in their order; with the last one it
    was found. passed_over: failures that don't count."""

    bug: str
    rule: str | None
    runs: tuple[Run, ...]
    seconds: float
    passed_over: tuple[str, ...] = ()

    @property
    def by(self) -> str:
        return self.runs[-1].title if self.rule is not None else ""


def verdict_of(rule: str, failure: str) -> str | None:
    """The rule that this failure violates, or the product's assertion that did not hold; else None.

    A TypeError says that the planted bug does not fit the product any more: it finds nothing."""
    if not rule.startswith("crash"):
        return rule or None
    crash = CRASH.match(failure)
    if crash is not None and crash[1] != "TypeError":
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
        plans=False,
        coordinators=0,
        compacted=False,
    )


def runs_for(bug: Plant) -> Iterator[Run]:
    """The scenarios made for it, then random seeds."""
    for seed in SCENARIO_SEEDS:
        for scenario in SCENARIOS:
            if scenario.number in bug.scenarios:
                yield Run(seed, scenario.title)
    for seed in range(bug.seeds_max):
        yield Run(
            seed,
            family=bug.family,
            coordinators=bug.coordinators,
            compacted=bug.compacted,
            walks=bug.walks,
        )


def hunt(bug: Plant) -> Hunt:
    """Run with the bug until it is found or its seeds are used up."""
    began = time.monotonic()
    passed_over: list[str] = []
    runs: list[Run] = []
    rule: str | None = None
    for run in runs_for(bug):
        runs.append(run)
        with planted(bug):
            failed = run.failure()
        if failed is not None:
            rule = verdict_of(*failed)
            if rule is not None:
                break
            passed_over.append(f"{run.title}: {failed[1]}")
    return Hunt(bug.name, rule, tuple(runs), time.monotonic() - began, tuple(passed_over))


def failure_without_bug(run: Run) -> str | None:
    """Whoever fails without the bug as well has found something, but not this bug."""
    failed = run.failure()
    if failed is None:
        return None
    return f"fails without any planted bug: {run.scenario} seed {run.seed}: {failed[1]}"


def hunt_by_name(name: str) -> Hunt:
    return hunt(next(bug for bug in PLANTS if bug.name == name))


def hunt_all(bugs: Sequence[Plant], *, jobs: int) -> tuple[list[Hunt], list[str | None]]:
    """In parallel processes, those that may take longest first; in the order of `bugs`. And how the same runs
    fail without any bug: None for each that passes."""
    names = sorted(
        (bug.name for bug in bugs), key=lambda name: -next(b.seeds_max for b in bugs if b.name == name)
    )
    with get_context("fork").Pool(jobs) as pool:
        found: dict[str, Hunt] = {}
        for each in pool.imap_unordered(hunt_by_name, names):
            found[each.bug] = each
            print(f"{each.bug}: {each.rule} by {each.by}, {each.seconds:.1f} s", file=sys.stderr, flush=True)
        runs = sorted({run for each in found.values() for run in each.runs})
        return [found[bug.name] for bug in bugs], pool.map(failure_without_bug, runs, chunksize=1)


def table(bugs: Sequence[Plant], hunts: Sequence[Hunt]) -> str:
    rows = [("bug", "breaks", "found by", "rule", "runs", "s", "seen")]
    for bug, each in zip(bugs, hunts, strict=True):
        rows.append(
            (
                bug.name,
                bug.breaks,
                each.by or "NOT FOUND",
                each.rule or "-",
                str(len(each.runs)),
                f"{each.seconds:.1f}",
                bug.seen,
            )
        )
    return aligned(rows)


def part_of(hunts: Sequence[Hunt], without_bugs: Sequence[str | None], seconds: float) -> Part:
    """The figures; one failure for each bug that got away, and for each run that fails without any."""
    found = [each for each in hunts if each.rule is not None]
    by_scenario = [each for each in found if not each.by.startswith(("seed", "walk"))]
    return Part(
        name="teeth",
        seconds=round(seconds, 1),
        figures={
            "planted bugs": len(hunts),
            "found": len(found),
            "found by a scenario": len(by_scenario),
            "found by a random seed": len(found) - len(by_scenario),
            "median runs to detection": statistics.median([len(each.runs) for each in found] or [0]),
            "most runs to detection": max((len(each.runs) for each in found), default=0),
            "the same runs without a bug": len(without_bugs),
        },
        failures=[
            *(f"{each.bug} was not found in {len(each.runs)} runs" for each in hunts if each.rule is None),
            *(failure for failure in without_bugs if failure is not None),
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.teeth", description=__doc__)
    parser.add_argument("bugs", nargs="*", help="names; all when none is given")
    parser.add_argument(
        "--turn", type=int, choices=range(TURNS), help="every third of them, from this one on"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    unknown = set(arguments.bugs) - {bug.name for bug in PLANTS}
    if unknown:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    bugs = [bug for bug in PLANTS if not arguments.bugs or bug.name in arguments.bugs]
    if is_left_out():
        bugs = [bug for bug in bugs if bug.family != "mixed"]
    bugs = of_turn(bugs, arguments.turn)
    began = time.monotonic()
    hunts, without_bugs = hunt_all(bugs, jobs=arguments.jobs)
    print(table(bugs, hunts))
    for each in hunts:
        for failure in each.passed_over[:3]:
            print(f"{each.bug}: does not count: {failure}")
    part = part_of(hunts, without_bugs, time.monotonic() - began)
    print(f"\n{part.figures}, {part.seconds} s", *part.failures, sep="\n")
    if not arguments.bugs:
        save(part)
    return 0 if part.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
