"""The way of one walk through the releases, drawn from a seed. Pure but for the random numbers it is given.

A walk begins with seven processes of the last release. Some are rolled to this release, all of those are
rolled back, then all seven are rolled to this release, and the level is finalized. A process is stopped as an
operator stops it, or killed; between, processes are killed and started again as the release that they are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

CONTROLLERS, BROKERS, COORDINATORS = 2, 3, 2
PROCESSES = (
    *(f"controller-{number}" for number in range(1, CONTROLLERS + 1)),
    *(f"broker-{number}" for number in range(1, BROKERS + 1)),
    *(f"coordinator-{1000 + number}" for number in range(1, COORDINATORS + 1)),
)
KILL_INSTEAD_OF_STOP = 0.3
KILL_BETWEEN = 0.35
BEFORE_IT_IS_WHOLE = 0.5
"""Of the kills between: that it strikes while the process that was rolled last still comes back."""


class Release(StrEnum):
    LAST = "last"
    THIS = "this"


@dataclass(frozen=True, slots=True)
class Step:
    """One process ends and starts again.

    release: what it runs from then on. is_kill: it ends by SIGKILL, not by SIGTERM. waits: until all is whole
    again before the next step.
    """

    process: str
    release: Release
    is_kill: bool
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Walk:
    """rolled: how many processes go there and back before all go."""

    seed: int
    rolled: int
    phases: Sequence[Phase]

    def faults(self) -> Counter[str]:
        """Return what strikes beside the stops of a rolling upgrade."""
        kinds: Counter[str] = Counter()
        for phase in self.phases:
            for step in phase.steps:
                if step.is_kill:
                    kinds[f"{step.process.partition('-')[0]} killed"] += 1
        return kinds


def draw_walk(seed: int, rolled: int) -> Walk:
    """Draw the walk in which so many processes, 0 to 7, go there and back first."""
    rng = random.Random(f"{seed}/{rolled}")
    chosen = rng.sample(PROCESSES, rolled)
    runs = dict.fromkeys(PROCESSES, Release.LAST)

    def phase(name: str, processes: Sequence[str], release: Release) -> Phase:
        steps: list[Step] = []
        for process in processes:
            kill = _kill_between(rng, runs) if rng.random() < KILL_BETWEEN else None
            overlaps = kill is not None and kill.process != process and rng.random() < BEFORE_IT_IS_WHOLE
            is_kill = rng.random() < KILL_INSTEAD_OF_STOP
            runs[process] = release
            steps.append(Step(process, release, is_kill=is_kill, waits=not overlaps))
            if kill is not None:
                steps.append(Step(kill.process, runs[kill.process], is_kill=True))
        return Phase(name, steps)

    return Walk(
        seed,
        rolled,
        (
            phase("there", chosen, Release.THIS),
            phase("back", rng.sample(chosen, rolled), Release.LAST),
            phase("on", rng.sample(PROCESSES, len(PROCESSES)), Release.THIS),
        ),
    )


def _kill_between(rng: random.Random, runs: dict[str, Release]) -> Step:
    process = rng.choice(PROCESSES)
    return Step(process, runs[process], is_kill=True)


def draw_walks(seed: int, count: int) -> Sequence[Walk]:
    """Draw so many walks: with each number of processes once, in order, or with some of the numbers."""
    numbers = list(range(len(PROCESSES) + 1))
    if count < len(numbers):
        numbers = sorted(random.Random(seed).sample(numbers, count))
    return [draw_walk(seed + index // len(numbers), numbers[index % len(numbers)]) for index in range(count)]
