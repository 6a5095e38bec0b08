"""Runs cases against one side or two: alternately, round by round, so that both see the same machine.

Order within a case: side A, side B, side A, side B... Whatever else the machine does drifts slower than that
and meets both. Where a plain copy loop can do the same (pipe.py), it takes its turn, too. A case has a topic
of its own on each side, which is deleted after its last round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from bench import scenarios
from bench.asking import wait_until_served
from bench.case import FILL_BYTES, FILL_BYTES_QUICK, Case, Kind, Setup
from bench.figures import Figures, Measurement, Ratios, compare, figures_of, median_figures, quotient
from bench.load_spec import LoadSpec, run_fill, run_load
from bench.secured import client_context
from bench.sides import KEEP_ALL, RETENTION_BYTES, Side, Tell

WARMUP_S_MIN = 0.5
JIT_WARMUP_CASES = ("produce-all-100b-8x1", "produce-all-66k-4x4", "fetch-backlog-4x1")
JIT_WARMUP_S = 5.0
JIT_WARMUP_RUNS_MAX = 16
"""Before a comparison both sides do a little of everything until it does not get faster any more: a JVM that
still compiles is many times slower, and on two cores three of them do so for a minute."""
STEADY_GAIN = 0.05
"""A run that is at most so much faster than the best before it is no gain."""
STEADY_RUNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case's outcome. `rounds` and `medians` by the sides' names, in the order in which they ran."""

    case: Case
    rounds: dict[str, list[Figures]]
    medians: dict[str, Figures]
    ratios: Ratios | None
    """The first side against the second; None with one side."""
    pipe_share: float | None = None
    """The first side's throughput for each byte that the plain copy loop moves; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured, how long and how often. seconds: measured a round, of a case of usual length."""

    cases: Sequence[Case]
    rounds: int
    seconds: float
    is_quick: bool

    def measured_s(self, case: Case) -> float:
        return self.seconds * case.length

    def warmup_s(self, case: Case) -> float:
        return max(WARMUP_S_MIN, self.measured_s(case) * case.warmup)

    @property
    def fill_bytes(self) -> int:
        return FILL_BYTES_QUICK if self.is_quick else FILL_BYTES

    def by_setup(self) -> list[tuple[Setup, list[Case]]]:
        """Return the cases of each setup, in their order."""
        return [(setup, list(cases)) for setup, cases in groupby(self.cases, key=lambda case: case.setup)]


def run_cases(
    cases: Sequence[Case],
    plan: Plan,
    sides: Sequence[Side],
    tell: Tell,
    on_row: Callable[[Row], None],
    *,
    pipe: Side | None = None,
) -> None:
    """Every case on every side, and on the pipe where a case has one.

    Raises LoadFailed, ProcessFailed.
    """
    for case in cases:
        tell(f"case {plan.cases.index(case) + 1}/{len(plan.cases)}: {case.name}: {case.description}")
        on_row(_run_case(case, plan, sides, tell, pipe if case.has_pipe else None))


def warm_up(cases: Sequence[Case], side: Side, tell: Tell) -> None:
    """Runs each case until it does not get faster any more, for nothing."""
    for case in cases:
        with_topic = replace(case, name=f"warmup-{case.name}")
        plan = Plan(cases=[with_topic], rounds=1, seconds=JIT_WARMUP_S, is_quick=True)
        _create_topics(with_topic, plan, side)
        rates: list[float] = []
        while len(rates) < JIT_WARMUP_RUNS_MAX and not is_steady(rates):
            rates.append(figures_of(run_load(_spec(with_topic, plan, side))).operations_per_s)
            tell(f"warming up {side.name}: {case.name} {rates[-1]:,.0f} {case.operation}s/s")
        side.delete_topic(with_topic.name)


def is_steady(rates: Sequence[float]) -> bool:
    """Whether the last `STEADY_RUNS` runs were no gain over the best before them."""
    if len(rates) <= STEADY_RUNS:
        return False
    return max(rates[-STEADY_RUNS:]) <= max(rates[:-STEADY_RUNS]) * (1 + STEADY_GAIN)


def _run_case(case: Case, plan: Plan, sides: Sequence[Side], tell: Tell, pipe: Side | None) -> Row:
    measured_sides = [*sides, *([] if pipe is None else [pipe])]
    rounds: dict[str, list[Figures]] = {side.name: [] for side in measured_sides}
    for side in sides:
        _create_topics(case, plan, side)
    for side in sides:
        scenarios.begin(case, side)
    for number in range(1, plan.rounds + 1):
        for side in measured_sides:
            figures = figures_of(_measure(case, plan, side))
            rounds[side.name].append(figures)
            tell(f"  round {number} {side.name:<10} {describe(figures, case)}")
    for side in sides:
        scenarios.end(case, side)
        for topic in _topics(case):
            side.delete_topic(topic)
    medians = {name: median_figures(measured) for name, measured in rounds.items()}
    ours = medians[sides[0].name]
    return Row(
        case=case,
        rounds=rounds,
        medians=medians,
        ratios=compare(*(medians[side.name] for side in sides)) if len(sides) == 2 else None,
        pipe_share=None if pipe is None else quotient(ours.mb_per_s, medians[pipe.name].mb_per_s),
    )


def _measure(case: Case, plan: Plan, side: Side) -> Measurement:
    spec = _spec(case, plan, side)
    if case.kind is Kind.CATCH_UP:
        return scenarios.measure_catch_up(spec, side, fill_bytes=plan.fill_bytes)
    return run_load(spec)


def _topics(case: Case) -> list[str]:
    """The topic that is written or read, and the full one beside it, which the case's readers read."""
    if case.kind is Kind.IDLE:
        return []
    return [case.name, *([f"{case.name}-full"] if case.readers else [])]


def _create_topics(case: Case, plan: Plan, side: Side) -> None:
    for topic in _topics(case):
        is_full = case.kind.reads_backlog or topic != case.name
        keeps_all = is_full or case.kind is Kind.CATCH_UP
        side.create_topic(
            topic, partitions=case.partitions, retention_bytes=KEEP_ALL if keeps_all else RETENTION_BYTES
        )
        tls = client_context(side.ca_file, side.cert_file)
        wait_until_served(side.bootstrap_servers, topic, tls)
        if is_full:
            run_fill(replace(_spec(case, plan, side), topic=topic), fill_bytes=plan.fill_bytes)


def _spec(case: Case, plan: Plan, side: Side) -> LoadSpec:
    return LoadSpec(
        case=case,
        topic=case.name,
        bootstrap_servers=side.bootstrap_servers,
        ca_file=side.ca_file,
        cert_file=side.cert_file,
        broker_pids=side.controller_pids if case.is_of_controller else side.broker_pids,
        warmup_s=plan.warmup_s(case),
        duration_s=plan.measured_s(case),
        backlog_topic=f"{case.name}-full" if case.readers else None,
    )


def describe(figures: Figures, case: Case) -> str:
    """One run in one line."""
    latency = "" if figures.p99_ms is None else f", p50 {figures.p50_ms:.2f} ms, p99 {figures.p99_ms:.2f} ms"
    if case.kind is Kind.IDLE:
        return f"{figures.broker_cpu_s_per_million:,.0f} us CPU a second, {figures.broker_rss_mb:.0f} MB"
    return (
        f"{figures.mb_per_s:7.1f} MB/s, {figures.operations_per_s:9,.0f} {case.operation}s/s{latency}, "
        f"{figures.broker_cpu_s_per_million:.1f} us CPU a {case.operation}"
    )
