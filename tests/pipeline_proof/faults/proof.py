"""Row 6, second part: many runs, each judged; some of them once more with delivery=at-least-once, and with
Spark's own Kafka sink where that is at hand."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from tests.pipeline_proof.connector import NOT_AT_HAND, connector_version
from tests.pipeline_proof.faults.arena import Arena, open_arena
from tests.pipeline_proof.faults.drivers import Drivers, adopt_orphans
from tests.pipeline_proof.faults.run import (
    BATCHES,
    EXACTLY_ONCE,
    FORGETFUL_CONFIG,
    OFFICIAL,
    REQUESTS,
    Result,
    Run,
)
from tests.pipeline_proof.faults.schedule import Schedule, Setting, draw, settings
from tests.pipeline_proof.part import DIRECTORY, Part, proving
from tests.proof.part import Figure
from tests.proof.table import aligned

AT_LEAST_ONCE = "at-least-once"
CONTROL_RUNS = 3
Tell = Callable[[str], None]


def schedules(runs: int, first: int) -> list[Schedule]:
    """Of the seeds from `first` on."""
    return [
        draw(first + number, setting, turn, requests=REQUESTS, batches=BATCHES)
        for number, (setting, turn) in enumerate(settings(runs))
    ]


def prove_faults(
    *, runs: int, first: int, directory: Path | None = None, part_directory: Path = DIRECTORY
) -> bool:
    """True when every run was exact. The directory is removed then, unless it was given."""
    adopt_orphans()
    scratch = (directory or Path(tempfile.mkdtemp(prefix="pipeline-proof-"))).resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {line}", flush=True)

    with proving(6, "spark", directory=part_directory) as part:
        results, failures = carry_out(schedules(runs, first), scratch, tell)
        sum_up(part, results, failures)
        print(as_table(results), flush=True)
        if part.is_ok and directory is None:
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            tell(f"logs and checkpoints are in {scratch}")
        return part.is_ok


def carry_out(wanted: list[Schedule], scratch: Path, tell: Tell) -> tuple[list[Result], list[str]]:
    """Every schedule, and the first ones a second time with the weaker promise; one line for each that did
    not come to its end."""
    results: list[Result] = []
    failures: list[str] = []
    controls = CONTROL_RUNS if len(wanted) > CONTROL_RUNS else 0
    with contextlib.closing(Drivers(scratch)) as drivers:
        for forgets, some in groupby(wanted, key=lambda each: each.setting is Setting.FORGETFUL):
            with arena_of(scratch, forgets=forgets, tell=tell) as arena:
                for schedule in some:
                    deliveries = [EXACTLY_ONCE]
                    if schedule.setting is Setting.LOCAL and controls:
                        controls -= 1
                        deliveries += [AT_LEAST_ONCE, *([OFFICIAL] if connector_version() else [])]
                    for delivery in deliveries:
                        tell(f"seed {schedule.seed}, {schedule.setting}, {delivery}: {describe(schedule)}")
                        place = scratch / f"{schedule.seed}-{delivery}"
                        try:
                            result = Run(
                                arena, drivers, schedule, delivery, place, tell, is_last=len(wanted) == 1
                            ).go()
                        except Exception as error:
                            tell(f"seed {schedule.seed}, {delivery}: {type(error).__name__}: {error}")
                            if delivery != OFFICIAL:  # how another's sink ends is no failure of ours
                                failures.append(f"seed {schedule.seed}, {delivery}: {error!r}")
                            continue
                        results.append(result)
                        tell(f"  {result.verdict}, {result.seconds:.1f} s, {dict(result.struck)}")
    return results, failures


@contextlib.contextmanager
def arena_of(scratch: Path, *, forgets: bool, tell: Tell) -> Iterator[Arena]:
    tell("brokers that forget producers within seconds" if forgets else "brokers as they are by default")
    place = scratch / ("forgetful" if forgets else "brokers")
    with open_arena(place, broker_config=FORGETFUL_CONFIG if forgets else {}) as arena:
        yield arena


def describe(schedule: Schedule) -> str:
    strikes = [f"{each.kind} ({each.moment.name.lower()} {each.at})" for each in schedule.strikes]
    losses = f"lost {schedule.lose:.0%}, unanswered {schedule.lose_answer:.0%}, late {schedule.late:.0%}"
    return "; ".join([*strikes, losses])


def sum_up(part: Part, results: list[Result], failures: list[str]) -> None:
    exact = [result for result in results if result.delivery == EXACTLY_ONCE]
    control = [result for result in results if result.delivery == AT_LEAST_ONCE]
    struck: Counter[str] = Counter()
    for result in exact:
        struck.update(result.struck)
        verdict = result.verdict
        part.missing += verdict.missing
        part.duplicates += verdict.duplicates
        part.inversions += verdict.inversions
        if not verdict.is_exact:
            part.fail(f"seed {result.schedule.seed} ({describe(result.schedule)}): {verdict}")
    part.faults |= dict(sorted(struck.items()))
    part.figures |= {
        "runs with Spark and brokers": len(exact),
        "records": sum(result.verdict.records for result in exact),
        "Produce requests": sum(result.requests for result in exact),
        "drivers that died": sum(result.driver_ends for result in exact),
        "queries that failed and were started again": sum(len(result.query_failures) for result in exact),
        "requests of zombies": sum(result.zombie_requests for result in exact),
        "seconds of the slowest run": max((result.seconds for result in exact), default=0.0),
        **of_control("at-least-once", control),
    }
    official = [result for result in results if result.delivery == OFFICIAL]
    if official:
        part.figures |= of_control("Spark's Kafka sink", official)
    else:
        part.not_compared(f"the duplicates of Spark's Kafka sink: {NOT_AT_HAND}")
    for result in control:
        if result.verdict.missing:
            part.fail(f"seed {result.schedule.seed}, at-least-once: {result.verdict}")
    for failure in failures:
        part.fail(failure)


def of_control(name: str, results: list[Result]) -> dict[str, Figure]:
    """What a sink with a weaker promise made of the same schedules."""
    verdicts = [result.verdict for result in results]
    return {
        f"{name}, same schedules: runs": len(verdicts),
        f"{name}: records": sum(verdict.records for verdict in verdicts),
        f"{name}: missing": sum(verdict.missing for verdict in verdicts),
        f"{name}: duplicates": sum(verdict.duplicates for verdict in verdicts),
        f"{name}: inversions": sum(verdict.inversions for verdict in verdicts),
    }


def as_table(results: list[Result]) -> str:
    rows = [["seed", "where", "delivery", "records", "missing", "twice", "out of order", "drivers died", "s"]]
    rows += [
        [
            str(result.schedule.seed),
            result.schedule.setting.value,
            result.delivery,
            f"{result.verdict.records:,}",
            str(result.verdict.missing),
            str(result.verdict.duplicates),
            str(result.verdict.inversions),
            str(result.driver_ends),
            f"{result.seconds:.1f}",
        ]
        for result in results
    ]
    return aligned(rows)
