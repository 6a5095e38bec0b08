"""What is run, with which size: `ci` on every commit, `full` for `make proof`, and rounds for `make explore`.

A commit is gated on the seeds that the file `tests/seeds` names, which its author has run: no landing depends
on an unseen draw. `make proof` and `make explore` draw new seeds and print them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tests.simulation.schedule import CORES_ONLY, FAMILIES
from tests.upgrade.last_release import is_left_out

T = TypeVar("T")

SEEDS = Path(__file__).parents[1] / "seeds"
SEEDS_APART = 10_000
"""Distance between two drawn first seeds: more than a run ever needs."""

FIRST_SEEDS = 100_000

ON_REAL_PROCESSES = {name: title for name, title in FAMILIES.items() if name not in CORES_ONLY}
"""What has a command of its own, with titles."""

TURNS = 3
"""A commit runs a third of the families, of the hunts for planted bugs, of the proofs of transactions, of the
two longest ones on real processes and of the slow tests, another one on each of three days: what they find
seldom comes from one commit, and `make proof` and `make faults` run all."""

WITH_LAST_RELEASE = {"family-mixed", "upgrade"}
"""Parts that need the last release's commit."""

MEASURED = {"creation"}
"""Of these: those whose figures are times that are published."""


class Profile(StrEnum):
    CI = "ci"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Step:
    """One command and the parts it has to leave.

    arguments: of the Python interpreter.
    minutes_max: it is ended, and has failed, when it takes longer: it hangs. In full, three times what two
    idle cores need: a busy machine is no failure.
    waits: most of its time goes by in pauses of its story, and no time that it measures is published: two
    such steps run at a time. (The storms use a third of two cores; what `make proof` says of their stalls is
    published.)
    """

    title: str
    arguments: tuple[str, ...]
    parts: tuple[str, ...]
    minutes_max: float
    waits: bool = False


def committed_seed(path: Path = SEEDS) -> int:
    """Return the first seed that the file names: its only line that is no comment."""
    (line,) = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return int(line)


def drawn_seed() -> int:
    """Draw a first seed that is far from all others."""
    return secrets.randbelow(FIRST_SEEDS) * SEEDS_APART


def of_turn(items: Sequence[T], turn: int | None) -> list[T]:
    """Return those whose turn it is: every third; all where there is no turn."""
    return list(items if turn is None else items[turn::TURNS])


def steps(profile: Profile, first_seed: int, *, jobs: int, turn: int | None = None) -> Sequence[Step]:
    """Return the steps, in the order in which a failure is cheapest to find. turn: 0 to 2, see TURNS."""
    first = str(first_seed)
    workers = str(jobs)
    is_full = profile is Profile.FULL

    def step(title: str, command: str, parts: str, *, minutes_max: float, waits: bool = False) -> Step:
        return Step(title, ("-m", *command.split()), tuple(parts.split()), minutes_max, waits)

    def sized(title: str, command: str, part: str, *, minutes_ci: float = 6, waits: bool = False) -> Step:
        size, minutes_max = ("full", 60) if is_full else ("ci", minutes_ci)
        return step(title, f"{command} --size {size}", part, minutes_max=minutes_max, waits=waits)

    def on_real_processes(family: str) -> Step:
        title, is_measured = f"{FAMILIES[family]}, on real processes", family in MEASURED
        return sized(title, f"tests.faults.{family}", f"real-{family}", waits=not is_measured)

    def of_nemesis(title: str, flags: str, part: str) -> Step:
        return step(
            title,
            f"tests.faults.nemesis {flags} --minutes {12 if is_full else 2} --seed {first}",
            part,
            minutes_max=90 if is_full else 15,
            waits=not is_full,
        )

    of_transactions = [
        of_nemesis(
            "transactions where leaders are elected uncleanly, on real processes",
            "--transactions --unclean",
            "tier-c-unclean",
        ),
        of_nemesis(
            "transactions of stock clients under faults, on real processes",
            "--transactions",
            "tier-c-transactions",
        ),
        sized(
            "each order billed once and no money missing, on real processes",
            "tests.faults.exactly_once",
            "real-exactly_once",
        ),
    ]
    longest = [
        sized("a consumer group of stock clients, on real processes", "tests.faults.groups", "real-groups"),
        sized(
            "the last release and this one side by side, on real processes",
            f"tests.upgrade.matrix --seed {first}",
            "upgrade",
            minutes_ci=10,
        ),
    ]
    planned = [
        step(
            "simulation, the cores on an event heap",
            f"tests.simulation sweep --seeds {2000 if is_full else 300} --hours {60 if is_full else 20}"
            f" --first {first} --jobs {workers}",
            "tier-a",
            minutes_max=180 if is_full else 25,
        ),
        *(
            step(
                f"simulation, {title}",
                f"tests.simulation sweep --family {family} --seeds {400 if is_full else 40}"
                f" --first {first} --jobs {workers}",
                f"family-{family}",
                minutes_max=60 if is_full else 5,
            )
            for family, title in of_turn(list(FAMILIES.items()), turn)
        ),
        step("the 2013 schedule on the cores", "tests.simulation 2013", "2013-tier-a", minutes_max=5),
        step(
            "simulation, the whole system in virtual time",
            f"tests.fullstack sweep --seeds {400 if is_full else 40} --first {first} --jobs {workers}",
            "tier-b",
            minutes_max=180 if is_full else 15,
        ),
        step("the 2013 schedule on the whole system", "tests.fullstack 2013", "2013-tier-b", minutes_max=5),
        step(
            "planted bugs, replication",
            f"tests.simulation.teeth --jobs {workers}" + ("" if turn is None else f" --turn {turn}"),
            "teeth",
            minutes_max=90 if is_full else 20,
        ),
        step(
            "planted bugs, storage",
            f"tests.powercuts teeth --jobs {workers}",
            "teeth-storage",
            minutes_max=30 if is_full else 10,
        ),
        step(
            "crash states of the storage engine",
            f"tests.powercuts states --states {50_000 if is_full else 5_000}"
            f" --first {first} --jobs {workers}",
            "crash-states",
            minutes_max=60 if is_full else 5,
        ),
        step(
            "power cuts on ext4",
            f"tests.powercuts ext4 --cuts {1_000 if is_full else 100}",
            "power-cuts",
            minutes_max=60 if is_full else 5,
        ),
        step(
            "REST, asked what the document allows and what it does not",
            f"tests.hostile --cases {5_000 if is_full else 400} --seed {first} --jobs {workers}",
            "rest",
            minutes_max=60 if is_full else 10,
        ),
        step(
            "bytes from outside, searched by coverage"
            if is_full
            else "bytes from outside, as kept by searches",
            f"tests.fuzz --minutes {5 if is_full else 0} --jobs {workers}",
            "fuzz",
            minutes_max=20 if is_full else 5,
        ),
        step(
            "the 2013 schedule on real processes",
            "tests.faults.jepsen2013",
            "2013-real",
            minutes_max=30 if is_full else 10,
            waits=True,
        ),
        sized(
            "damaged files of a minority, on real processes",
            "tests.faults.minority",
            "real-minority",
            waits=True,
        ),
        *of_turn(list(map(on_real_processes, sorted(ON_REAL_PROCESSES, key=MEASURED.__contains__))), turn),
        of_nemesis("faults on real processes", "", "tier-c"),
        *of_turn(of_transactions, turn),
        *of_turn(longest, turn),
    ]
    return [each for each in planned if not is_left_out() or WITH_LAST_RELEASE.isdisjoint(each.parts)]


def exploring(first_seed: int, *, jobs: int) -> Sequence[Step]:
    """Return one round of `make explore`: a little of every tier, from seeds that were just drawn."""
    seeds = f"--first {first_seed} --jobs {jobs}"
    commands = {
        "simulation": f"tests.simulation sweep --seeds 400 {seeds}",
        **{
            f"simulation, {title}": f"tests.simulation sweep --family {family} --seeds 60 {seeds}"
            for family, title in FAMILIES.items()
        },
        "whole system in virtual time": f"tests.fullstack sweep --seeds 40 {seeds}",
        "crash states": f"tests.powercuts states --states 1000 {seeds}",
        "REST": f"tests.hostile --cases 1000 --seed {first_seed} --jobs {jobs}",
        "property tests": f"pytest -q -n {jobs} tests/unit --hypothesis-profile=random"
        f" --hypothesis-seed={first_seed}",
        "faults on real processes": f"tests.faults.nemesis --minutes 2 --seed {first_seed}",
        "transactions under faults": f"tests.faults.nemesis --transactions --minutes 2 --seed {first_seed}",
    }
    return [Step(title, ("-m", *command.split()), (), 15) for title, command in commands.items()]


def missing(wanted: Sequence[Step], found: Callable[[str], bool]) -> list[str]:
    """Parts that should be there and are not: what did not run has not passed."""
    return [part for step in wanted for part in step.parts if not found(part)]
