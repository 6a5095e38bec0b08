"""What strikes in one run, and when: all of it follows from the seed. Pure.

A strike comes at the n-th Produce request of a run, or at a mark that the query leaves in its checkpoint, so
it meets the protocol at a point and not at a time. How the machine's schedulers go on from there does not
follow from the seed: a seed names a schedule, it does not replay a run to the microsecond.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.pipeline_proof.faults.gate import Moment


class Kind(StrEnum):
    """What may strike."""

    KILL_DRIVER = "driver killed, with all it started"
    KILL_JVM = "driver killed, its Python workers find out"
    KILL_DRIVER_AT_COMMIT = "driver killed between the sink's commit and Spark's"
    KILL_WORKER = "Python worker killed"
    KILL_EXECUTOR = "executor killed"
    ZOMBIE = "attempt goes on after another driver has taken over"
    KILL_BROKER = "broker killed"
    STOP_BROKER = "broker restarted, its leaderships move"
    MOVE_LEADERS = "leaderships move to other brokers"
    CHANGE_PLAN = "restarted with other options in the middle of a micro-batch"
    FORGET = "restarted after brokers have forgotten the producers"


ENDS_DRIVER = frozenset(
    {
        Kind.KILL_DRIVER,
        Kind.KILL_JVM,
        Kind.KILL_DRIVER_AT_COMMIT,
        Kind.ZOMBIE,
        Kind.CHANGE_PLAN,
        Kind.FORGET,
    }
)

FORGETFUL = (Kind.FORGET, Kind.FORGET, Kind.KILL_WORKER, Kind.KILL_BROKER)
"""Where brokers forget producers within seconds. There nothing may be late, neither requests nor zombies: a
producer that is forgotten is not fenced. (Brokers remember for a day; attempts ask again after minutes.)"""

LOCAL = tuple(kind for kind in Kind if kind not in (Kind.KILL_EXECUTOR, Kind.FORGET))
CLUSTERED = (Kind.KILL_EXECUTOR, Kind.KILL_EXECUTOR, Kind.KILL_WORKER, Kind.KILL_BROKER, Kind.KILL_DRIVER)
"""Where executors are processes of their own."""

LOSSES = ((0.0, 0.0, 0.0), (0.01, 0.02, 0.0), (0.02, 0.04, 0.02), (0.0, 0.08, 0.0), (0.05, 0.0, 0.03))
"""Chances of a Produce request: to be lost, to lose its answer, to be late."""


class Setting(StrEnum):
    """Where a run takes place."""

    LOCAL = "local"
    CLUSTERED = "local-cluster"
    FORGETFUL = "forgetful brokers"


@dataclass(frozen=True, slots=True)
class Strike:
    """at: number of the Produce request within the run, from 1; or of the micro-batch, for one at a commit.
    resumes_after: of a zombie: it goes on when so many more requests have been made by its successors."""

    kind: Kind
    at: int
    moment: Moment
    resumes_after: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Strikes in the order in which they come up; `lose`, `lose_answer`, `late`: chances of a request."""

    seed: int
    setting: Setting
    strikes: tuple[Strike, ...]
    lose: float
    lose_answer: float
    late: float
    late_seconds: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(strike.kind for strike in self.strikes)


def settings(runs: int) -> list[tuple[Setting, int]]:
    """Where each run of a proof takes place, and its turn there from 0: of five, three in one process, one
    among forgetful brokers and one with executors of their own. Runs in one place follow each other."""
    clustered = runs // 5
    forgetful = (runs + 1) // 5
    places = (
        (Setting.LOCAL, runs - clustered - forgetful),
        (Setting.CLUSTERED, clustered),
        (Setting.FORGETFUL, forgetful),
    )
    return [(setting, turn) for setting, count in places for turn in range(count)]


def draw(seed: int, setting: Setting, turn: int, *, requests: int, batches: int) -> Schedule:
    """requests, batches: about how many a run without faults has; strikes come within them. turn: so many
    runs in this setting were before; the first kind follows from it, so that few runs have seen them all."""
    rng = random.Random(seed)
    kinds = {Setting.LOCAL: LOCAL, Setting.CLUSTERED: CLUSTERED, Setting.FORGETFUL: FORGETFUL}[setting]
    drawn = [kinds[turn % len(kinds)], *rng.choices(kinds, k=rng.randint(1, 3))]
    points = sorted(rng.sample(range(5, requests), len(drawn)))
    rng.shuffle(drawn)
    lose, lose_answer, late = rng.choice(LOSSES)
    return Schedule(
        seed,
        setting,
        tuple(
            Strike(
                kind,
                rng.randint(1, batches - 1) if kind is Kind.KILL_DRIVER_AT_COMMIT else point,
                rng.choice(list(Moment)),
                rng.randint(1, 40) if kind is Kind.ZOMBIE else 0,
            )
            for kind, point in zip(drawn, points, strict=True)
        ),
        lose,
        lose_answer,
        0.0 if setting is Setting.FORGETFUL else late,
        round(rng.uniform(0.05, 1.5), 2),
    )
