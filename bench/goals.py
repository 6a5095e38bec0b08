"""The goal of each row beside Apache Kafka, and what a row misses of it.

Pure: cases and figures in, sentences out. A ratio that a row does not have (a client library tells no latency
of its reads) is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.case import ACKS_ALL, Case, Kind, Setup
from bench.figures import Figures, Ratios

AHEAD = 1.0
ACKS_ALL_THROUGHPUT = 2.0
ROUND_TRIP_THROUGHPUT = 1.5
"""One request in flight: the round trip over three processes decides, and it has a floor on both sides."""
READING_THROUGHPUT = 1.2
TAIL_P99 = 2.0
PIPE_SHARE = 0.6
PACED_THROUGHPUT = 0.98
"""Where the load sets the pace, both sides move the same: the goal is to keep up with it."""
IDLE_CPU_US_MAX = 2_000.0
"""Of a second: 0.2 % of a core."""
IDLE_RSS_MB_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The least ratios, the least share of the pipe, and the most that an idle process may use. None: no
    goal."""

    throughput: float | None = AHEAD
    p50: float | None = AHEAD
    p99: float | None = AHEAD
    cpu: float | None = AHEAD
    pipe_share: float | None = None
    cpu_us_max: float | None = None
    rss_mb_max: float | None = None


def goal_of(case: Case) -> Goal:
    if case.kind is Kind.IDLE:
        is_bare = not case.connections
        return Goal(
            cpu_us_max=IDLE_CPU_US_MAX if is_bare and not case.is_of_controller else None,
            rss_mb_max=IDLE_RSS_MB_MAX if is_bare else None,
        )
    return Goal(
        throughput=_throughput(case),
        p99=TAIL_P99 if case.kind is Kind.TAIL else AHEAD,
        pipe_share=PIPE_SHARE if case.has_pipe else None,
    )


def _throughput(case: Case) -> float:
    if case.pause_s:
        return PACED_THROUGHPUT
    if case.kind.reads_backlog:
        return READING_THROUGHPUT
    # What more processes are good for depends on the processors of the machine.
    is_bound_by_machine = case.setup is Setup.WORKERS
    if case.kind in (Kind.TAIL, Kind.CATCH_UP) or case.acks != ACKS_ALL or is_bound_by_machine:
        return AHEAD
    is_round_trip = case.batch_records == 1 and case.in_flight == 1 and not case.kind.is_client
    return ROUND_TRIP_THROUGHPUT if is_round_trip else ACKS_ALL_THROUGHPUT


def misses(goal: Goal, *, ratios: Ratios | None, pipe_share: float | None, ours: Figures) -> dict[str, str]:
    """Return what is below its goal, by the column's name, as `value (goal)`."""
    found: dict[str, str] = {}
    for name in ("throughput", "p50", "p99", "cpu"):
        least, value = getattr(goal, name), None if ratios is None else getattr(ratios, name)
        if least is not None and value is not None and value < least:
            found[name] = f"{value:.2f}x (goal {least:g}x)"
    if goal.pipe_share is not None and pipe_share is not None and pipe_share < goal.pipe_share:
        found["pipe"] = f"{pipe_share:.0%} (goal {goal.pipe_share:.0%})"
    if goal.cpu_us_max is not None and ours.broker_cpu_s_per_million > goal.cpu_us_max:
        found["idle CPU"] = f"{ours.broker_cpu_s_per_million:,.0f} us a second (goal {goal.cpu_us_max:,.0f})"
    if goal.rss_mb_max is not None and ours.broker_rss_mb > goal.rss_mb_max:
        found["memory"] = f"{ours.broker_rss_mb:.0f} MB (goal {goal.rss_mb_max:g})"
    return found
