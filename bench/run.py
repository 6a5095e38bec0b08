"""Runs cases against one side or two: alternately, round by round, so that both see the same machine.

Order within a case: side A, side B, side A, side B... Whatever else the machine does drifts slower than that
and meets both. A case has a topic of its own on each side, which is deleted after its last round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.cases import FILL_BYTES, FILL_BYTES_QUICK, Case
from bench.figures import Figures, Ratios, compare, figures_of, median_figures
from bench.load_spec import LoadSpec, run_fill, run_load
from bench.sides import KEEP_ALL, RETENTION_BYTES, Side, Tell

WARMUP_FRACTION = 0.25
"""Of the time that is measured; before each run."""
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
class Plan:
    """How long and how often."""

    cases: Sequence[Case]
    rounds: int
    seconds: float
    is_quick: bool

    @property
    def warmup_s(self) -> float:
        return max(WARMUP_S_MIN, self.seconds * WARMUP_FRACTION)

    @property
    def fill_bytes(self) -> int:
        return FILL_BYTES_QUICK if self.is_quick else FILL_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case's outcome. `rounds` and `medians` by the sides' names, in the order in which they ran."""

    case: Case
    rounds: dict[str, list[Figures]]
    medians: dict[str, Figures]
    ratios: Ratios | None
    """The first side against the second; None with one side."""


def run_plan(plan: Plan, sides: Sequence[Side], tell: Tell, on_row: Callable[[Row], None]) -> list[Row]:
    """Every case on every side.

    Raises LoadFailed, ProcessFailed.
    """
    rows = []
    for number, case in enumerate(plan.cases, start=1):
        tell(f"case {number}/{len(plan.cases)}  {case.name}: {case.description}")
        row = _run_case(case, plan, sides, tell)
        rows.append(row)
        on_row(row)
    return rows


def warm_up(cases: Sequence[Case], side: Side, tell: Tell) -> None:
    """Runs each case until it does not get faster any more, for nothing."""
    for case in cases:
        with_topic = replace(case, name=f"warmup-{case.name}")
        plan = Plan(cases=[with_topic], rounds=1, seconds=JIT_WARMUP_S, is_quick=True)
        _begin_case(with_topic, plan, side)
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


def _run_case(case: Case, plan: Plan, sides: Sequence[Side], tell: Tell) -> Row:
    rounds: dict[str, list[Figures]] = {side.name: [] for side in sides}
    for side in sides:
        _begin_case(case, plan, side)
    for number in range(1, plan.rounds + 1):
        for side in sides:
            figures = figures_of(run_load(_spec(case, plan, side)))
            rounds[side.name].append(figures)
            tell(f"  round {number} {side.name:<10} {describe(figures, case)}")
    for side in sides:
        side.delete_topic(case.name)
    medians = {name: median_figures(measured) for name, measured in rounds.items()}
    ratios = compare(*(medians[side.name] for side in sides)) if len(sides) == 2 else None
    return Row(case=case, rounds=rounds, medians=medians, ratios=ratios)


def _begin_case(case: Case, plan: Plan, side: Side) -> None:
    side.create_topic(
        case.name,
        partitions=case.partitions,
        retention_bytes=KEEP_ALL if case.kind.reads_backlog else RETENTION_BYTES,
    )
    if case.kind.reads_backlog:
        run_fill(_spec(case, plan, side), fill_bytes=plan.fill_bytes)


def _spec(case: Case, plan: Plan, side: Side) -> LoadSpec:
    return LoadSpec(
        case=case,
        topic=case.name,
        bootstrap_servers=side.bootstrap_servers,
        ca_file=side.ca_file,
        broker_pids=side.broker_pids,
        warmup_s=plan.warmup_s,
        duration_s=plan.seconds,
    )


def describe(figures: Figures, case: Case) -> str:
    """One run in one line."""
    latency = "" if figures.p99_ms is None else f", p50 {figures.p50_ms:.2f} ms, p99 {figures.p99_ms:.2f} ms"
    return (
        f"{figures.mb_per_s:7.1f} MB/s, {figures.operations_per_s:9,.0f} {case.operation}s/s{latency}, "
        f"{figures.broker_cpu_s_per_million:.1f} us CPU a {case.operation}"
    )
