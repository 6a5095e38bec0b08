"""What is run, with which size: `ci` on every commit, `full` for `make proof`.

Every commit tries seeds that none before it tried, and they follow from the commit's *tree*: whoever checks
the same files out runs the same seeds, and a failure in continuous integration is the same failure here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

SEEDS_APART = 10_000
"""Distance between two trees' first seeds: more than a run ever needs."""

TREES_APART = 100_000


class Profile(StrEnum):
    CI = "ci"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Step:
    """One command and the parts it has to leave.

    arguments: of the Python interpreter.
    minutes_max: it is ended, and has failed, when it takes longer.
    """

    title: str
    arguments: tuple[str, ...]
    parts: tuple[str, ...]
    minutes_max: float


def first_seed(tree: str) -> int:
    """tree: hexadecimal id of the commit's tree."""
    return int(tree[:12], 16) % TREES_APART * SEEDS_APART


def third_of(tree: str) -> int:
    """Which third of the planted bugs has its turn."""
    return int(tree[12:20], 16) % 3


def steps(profile: Profile, tree: str, *, jobs: int) -> Sequence[Step]:
    """In the order in which a failure is cheapest to find."""
    first = str(first_seed(tree))
    workers = str(jobs)
    is_full = profile is Profile.FULL

    def step(title: str, command: str, parts: str, *, minutes_max: float) -> Step:
        return Step(title, ("-m", *command.split()), tuple(parts.split()), minutes_max)

    return [
        step(
            "simulation, the cores on an event heap",
            f"tests.simulation sweep --seeds 3000 --hours 100 --first {first} --jobs {workers}",
            "tier-a",
            minutes_max=60 if is_full else 25,
        ),
        step("the 2013 schedule on the cores", "tests.simulation 2013", "2013-tier-a", minutes_max=5),
        step(
            "simulation, the whole system in virtual time",
            f"tests.fullstack sweep --seeds {1000 if is_full else 200} --first {first} --jobs {workers}",
            "tier-b",
            minutes_max=60 if is_full else 15,
        ),
        step("the 2013 schedule on the whole system", "tests.fullstack 2013", "2013-tier-b", minutes_max=5),
        step(
            "planted bugs, replication",
            f"tests.simulation.teeth --jobs {workers}" + ("" if is_full else f" --third {third_of(tree)}"),
            "teeth",
            minutes_max=30 if is_full else 10,
        ),
        step(
            "planted bugs, storage",
            f"tests.powercuts teeth --jobs {workers}",
            "teeth-storage",
            minutes_max=10,
        ),
        step(
            "crash states of the storage engine",
            f"tests.powercuts states --states {50_000 if is_full else 5_000}"
            f" --first {first} --jobs {workers}",
            "crash-states",
            minutes_max=20 if is_full else 5,
        ),
        step(
            "power cuts on ext4",
            f"tests.powercuts ext4 --cuts {1_000 if is_full else 100}",
            "power-cuts",
            minutes_max=20 if is_full else 5,
        ),
        step(
            "REST, asked what the document allows and what it does not",
            f"tests.hostile --cases {20_000 if is_full else 3_000} --seed {first} --jobs {workers}",
            "rest",
            minutes_max=20 if is_full else 10,
        ),
        step("the 2013 schedule on real processes", "tests.faults.jepsen2013", "2013-real", minutes_max=10),
        step(
            "faults on real processes",
            f"tests.faults.nemesis --minutes {12 if is_full else 5} --seed {first}",
            "tier-c",
            minutes_max=30 if is_full else 15,
        ),
    ]


def missing(wanted: Sequence[Step], found: Callable[[str], bool]) -> list[str]:
    """Parts that should be there and are not: what did not run has not passed."""
    return [part for step in wanted for part in step.parts if not found(part)]
