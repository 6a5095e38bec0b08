"""Many seeds in several processes: the corpus first, then new seeds, then 5 % of them once more.

A worker that dies fails the sweep (its seeds have not passed); so does a mark that a sweep of this size
should have come to, and a digest that differs the second time.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context

from tests.checker.verdict import Kind
from tests.proof.part import Figure, Part
from tests.simulation.corpus import Case, load_corpus, run_case
from tests.simulation.marks import DECLARED, WATCHED, missed
from tests.simulation.options import SHAPES, draw_options, of_family, shape_of
from tests.simulation.report import report_and_save
from tests.simulation.run import Verdict
from tests.simulation.twice import Digests, SecondRunFailed, compare, digests_of, is_chosen, sources_digest

FAILED_MAX = 40
"""Failing seeds after which nothing more can be learned from going on."""
QUEUED_PER_JOB = 4
PROGRESS_SECONDS = 10.0
MS_AN_HOUR = 3_600_000

_INCONSISTENT = (Kind.INCONSISTENT_OFFSETS, Kind.REPLICAS_DIFFER)


@dataclass(slots=True)
class ShapeTotals:
    """What the runs of one shape add up to: a sweep's hours are worth what happened in them."""

    runs: int = 0
    simulated_ms: int = 0
    strikes: int = 0
    acked: int = 0

    def add(self, verdict: Verdict) -> None:
        self.runs += 1
        self.simulated_ms += verdict.simulated_ms
        self.strikes += len(verdict.strikes)
        self.acked += verdict.acked

    def __str__(self) -> str:
        minutes = self.simulated_ms / 60_000
        return (
            f"{self.runs:,}: {minutes / 60:.1f} h, {self.strikes / minutes:.1f} strikes and "
            f"{self.acked / minutes:,.0f} records a minute"
        )


@dataclass(slots=True)
class Totals:
    """What a sweep adds up. Verdicts are let go of as they come: their schedules would not fit."""

    seeds: int = 0
    from_corpus: int = 0
    simulated_ms: int = 0
    under_faults_ms: int = 0
    events: int = 0
    acked: int = 0
    read: int = 0
    elections: int = 0
    isr_changes: int = 0
    controller_elections: int = 0
    asides: int = 0
    lost: int = 0
    inconsistent: int = 0
    compared: int = 0
    recoveries_ms: list[int] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    shapes: dict[str, ShapeTotals] = field(default_factory=dict)

    @property
    def hours(self) -> float:
        return self.simulated_ms / MS_AN_HOUR

    def add(self, verdict: Verdict) -> None:
        self.simulated_ms += verdict.simulated_ms
        self.under_faults_ms += verdict.under_faults_ms
        self.events += verdict.events
        self.acked += verdict.acked
        self.elections += verdict.leader_changes
        self.isr_changes += verdict.isr_changes
        self.controller_elections += verdict.controller_elections
        self.asides += verdict.truncations_written_aside
        self.faults.update(verdict.faults)
        shape = shape_of(verdict.options)
        if shape is not None:
            self.shapes.setdefault(shape.name, ShapeTotals()).add(verdict)
        self.marks.update(verdict.marks)
        if verdict.recovery_ms >= 0:
            self.recoveries_ms.append(verdict.recovery_ms)
        if verdict.checked is not None:
            self.lost += verdict.checked.lost
            self.read += verdict.checked.records_read
        self.inconsistent += sum(verdict.anomalies.get(kind, 0) for kind in _INCONSISTENT)

    def figures(self, seconds: float) -> dict[str, Figure]:
        recoveries = sorted(self.recoveries_ms) or [0]
        demanded = [mark for mark, wanted in DECLARED.items() if wanted != WATCHED]
        reached = sum(1 for mark in demanded if self.marks.get(mark))
        return {
            "seeds": self.seeds,
            "corpus replayed": self.from_corpus,
            "simulated hours": round(self.hours, 2),
            "of them while a fault went on": round(self.under_faults_ms / MS_AN_HOUR, 2),
            **{shape.name: str(self.shapes[shape.name]) for shape in SHAPES if shape.name in self.shapes},
            "simulated seconds a second": round(self.simulated_ms / 1000 / max(seconds, 1e-9)),
            "events": self.events,
            "records acknowledged": self.acked,
            "records read": self.read,
            "leader elections": self.elections,
            "partition state changes": self.isr_changes,
            "controller elections": self.controller_elections,
            "divergent suffixes written aside": self.asides,
            "recovery ms, median": recoveries[len(recoveries) // 2],
            "recovery ms, worst": recoveries[-1],
            "runs compared with a second one": self.compared,
            "marks reached": f"{reached} of {len(demanded)}",
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """At least `seeds` from `first` on, and as many more as it takes to have simulated `hours`.

    family: half of the strikes are of this family (schedule.FAMILIES), and the part is named after it. Such a
    sweep owes no marks, and its seeds are not run twice.
    """

    first: int
    seeds: int
    hours: float = 0.0
    jobs: int = 1
    with_corpus: bool = True
    family: str = ""

    @property
    def part_name(self) -> str:
        return f"family-{self.family}" if self.family else "tier-a"

    def case(self, seed: int) -> Case:
        if not self.family:
            return Case(seed=seed)
        return Case(seed=seed, options=of_family(draw_options(seed), self.family))


class Sweep:
    def __init__(self, plan: Plan, *, show: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.totals = Totals()
        self.failed: list[Verdict] = []
        self._show = show or _print_progress
        self._digests: dict[int, Digests] = {}
        self._began = time.monotonic()
        self._shown = self._began

    def run(self) -> Part:
        """Runs everything; what came of it, failed or not."""
        totals = self.totals
        corpus = load_corpus() if self.plan.with_corpus else ()
        totals.from_corpus = len(corpus)
        sources = sources_digest()
        context = get_context("fork")
        with ProcessPoolExecutor(self.plan.jobs, mp_context=context) as pool:
            for case, verdict in _run_all(pool, corpus, jobs=self.plan.jobs):
                self._take(verdict, name=f"corpus, {case}")
            for case, verdict in _run_all(pool, self._new_seeds(), jobs=self.plan.jobs):
                totals.seeds += 1
                self._take(verdict, name=str(case))
                if is_chosen(case.seed) and verdict.rule is None and not self.plan.family:
                    self._digests[case.seed] = digests_of(verdict)
                self._progress()
        self._run_twice(sources)
        for mark in missed(totals.marks, seeds=0 if self.plan.family else totals.seeds):
            totals.failures.append(f"no seed came to the mark {mark}")
        seconds = time.monotonic() - self._began
        return Part(
            name=self.plan.part_name,
            seconds=round(seconds, 1),
            figures=totals.figures(seconds),
            faults=dict(totals.faults.most_common()),
            failures=totals.failures,
            lost=totals.lost,
            inconsistent=totals.inconsistent,
        )

    def _new_seeds(self) -> Iterator[Case]:
        plan = self.plan
        for number in count():
            is_enough = number >= plan.seeds and self.totals.hours >= plan.hours
            if is_enough or len(self.failed) >= FAILED_MAX:
                return
            yield plan.case(plan.first + number)

    def _take(self, verdict: Verdict, *, name: str) -> None:
        self.totals.add(verdict)
        if verdict.failure is not None:
            self.failed.append(verdict)
            self.totals.failures.append(f"{name}: {verdict.failure}")
            text = report_and_save(verdict)
            self._show(text if len(self.failed) <= 3 else f"{name}: {verdict.failure}")

    def _run_twice(self, sources: str) -> None:
        try:
            if self._digests:
                self._show(f"running {len(self._digests)} seeds again under another hash seed")
            self.totals.failures += compare(self._digests, jobs=self.plan.jobs, sources=sources)
            self.totals.compared = len(self._digests)
        except SecondRunFailed as error:
            self.totals.failures.append(f"no second runs: {error}")

    def _progress(self) -> None:
        now = time.monotonic()
        if now - self._shown >= PROGRESS_SECONDS:
            self._shown = now
            totals, plan = self.totals, self.plan
            seconds = now - self._began
            share = min(totals.seeds / plan.seeds, totals.hours / plan.hours if plan.hours else 1.0, 1.0)
            self._show(
                f"{seconds:6.0f} s: {totals.seeds:,} seeds, {totals.hours:.1f} simulated hours "
                f"({totals.simulated_ms / 1000 / seconds:.0f} s a second), {len(self.failed)} failed, "
                f"{seconds * (1 - share) / max(share, 1e-9):.0f} s to go"
            )


def _run_all(
    pool: ProcessPoolExecutor, cases: Iterable[Case], *, jobs: int
) -> Iterator[tuple[Case, Verdict]]:
    """Verdicts as they end. Only so many are queued that the next case can depend on them."""
    waiting: dict[Future[Verdict], Case] = {}
    source = iter(cases)
    is_over = False
    while waiting or not is_over:
        while not is_over and len(waiting) < jobs * QUEUED_PER_JOB:
            case = next(source, None)
            if case is None:
                is_over = True
            else:
                waiting[pool.submit(_run_one, case)] = case
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield waiting.pop(future), future.result()


def _run_one(case: Case) -> Verdict:
    """In a worker. What only a failure needs is not sent back."""
    verdict = run_case(case)
    return verdict if verdict.failure is not None else dataclasses.replace(verdict, last_events=())


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(part: Part, *, marks: Counter[str] | None = None) -> str:
    """A part as lines for people; with the marks that it came to."""
    lines = [f"{name:<34} {_show(value)}" for name, value in part.figures.items()]
    lines.append(f"{'records lost, inconsistent':<34} {part.lost}, {part.inconsistent}")
    lines.append(f"{'seconds':<34} {part.seconds}")
    if part.faults:
        struck = ", ".join(f"{kind} {number}" for kind, number in part.faults.items())
        lines.append(f"{'faults':<34} {sum(part.faults.values()):,}: {struck}")
    if marks is not None:
        lines += [f"  {marks.get(mark, 0):>9,} {mark}" for mark in DECLARED]
    lines += [f"FAILED {failure}" for failure in part.failures]
    return "\n".join(lines)


def _show(value: Figure) -> str:
    return f"{value:,}" if isinstance(value, int | float) else value
