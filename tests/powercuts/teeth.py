"""Whether the crash states find each planted bug, and after how many of them."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass

from tests.powercuts.crash_states import explore
from tests.powercuts.planted import PLANTS, Plant, planted
from tests.proof.part import Figure, Part, save


@dataclass(frozen=True, slots=True)
class Bite:
    """states: judged until it was found, or until patience ended. how: the first finding, "" if none."""

    name: str
    states: int
    seconds: float
    how: str


def bite(bug: Plant) -> Bite:
    """Explores from seed 0 on until the bug shows."""
    began = time.monotonic()
    states = seed = 0
    how = ""
    with planted(bug):
        while not how and states < bug.states_max:
            explored = explore(seed, failures_max=1)
            states += explored.states
            how = explored.failures[0] if explored.failures else ""
            seed += 1
    return Bite(bug.name, states, round(time.monotonic() - began, 1), how)


def find_planted(*, jobs: int, plants: list[Plant] | None = None) -> Part:
    """All of them. Leaves the part `teeth-storage`; figures: states until each was found."""
    began = time.monotonic()
    tried = {bug.name: bug for bug in plants or PLANTS}
    figures: dict[str, Figure] = {}
    failures = []
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for found in pool.imap_unordered(_bite_by_name, tried):
            print(f"{found.name}: {found.states:,} states, {found.seconds} s: {found.how[:120]}", flush=True)
            figures[found.name] = found.states
            if not found.how:
                failures.append(f"{found.name} was not found in {found.states:,} states")
    part = Part(
        name="teeth-storage",
        seconds=round(time.monotonic() - began, 1),
        figures={"planted": len(tried), "found": len(tried) - len(failures), **dict(sorted(figures.items()))},
        failures=failures,
    )
    save(part)
    return part


def _bite_by_name(name: str) -> Bite:
    (bug,) = (bug for bug in PLANTS if bug.name == name)
    return bite(bug)
