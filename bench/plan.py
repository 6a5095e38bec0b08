"""What is run, how long and how often, and so about how long it all takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from bench.case import FILL_BYTES, FILL_BYTES_QUICK, Case, Kind, Setup

WARMUP_S_MIN = 0.5
LOAD_START_S = 1.0
TOPIC_S = 2.0
PARTITION_S = 0.02
FILL_S = 3.0
AWAY_S = 12.0
"""Until a cluster takes a broker out of the in-sync sets, and in again."""
CLUSTER_START_S = 12.0
JIT_WARMUP_S = 120.0
"""Of one side, until its runs do not get faster any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how often. seconds: measured a round, of a case of usual length."""

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

    def case_s(self, case: Case, *, sides: int) -> float:
        """About the seconds that a case takes on so many sides, beside a pipe where it has one."""
        is_away_each_round = case.kind is Kind.CATCH_UP
        round_s = self.measured_s(case) + self.warmup_s(case) + LOAD_START_S
        if is_away_each_round:
            round_s = 2 * AWAY_S + FILL_S
        begin_s = TOPIC_S + case.partitions * PARTITION_S
        begin_s += FILL_S if case.kind.reads_backlog or case.readers else 0.0
        begin_s += 2 * AWAY_S if case.is_broker_dead else 0.0
        return sides * begin_s + (sides + case.has_pipe) * self.rounds * round_s

    def start_s(self, *, sides: int) -> float:
        """About the seconds until the clusters of one setup are ready. Two sides are warmed up first, as one
        has a JVM."""
        return sides * (CLUSTER_START_S + (JIT_WARMUP_S if sides > 1 else 0.0))

    def total_s(self, *, sides: int) -> float:
        """About the seconds of the whole run."""
        starts_s = len(self.by_setup()) * self.start_s(sides=sides)
        return starts_s + sum(self.case_s(case, sides=sides) for case in self.cases)


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
