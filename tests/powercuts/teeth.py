"""Whether the crash states find each planted bug, and after how many of them; and whether the same workloads
hold without any."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.powercuts.crash_states import explore
from tests.powercuts.planted import PLANTS, Plant
from tests.proof.part import Part, save
from tests.proof.table import aligned
from tests.simulation.planted.plant import planted


@dataclass(frozen=True, slots=True)
class Bite:
    """states: judged until it was found, or until patience ended. seeds: so many workloads were explored for
    that. how: the first finding, "" if none."""

    name: str
    states: int
    seeds: int
    seconds: float
    how: str


def bite(bug: Plant) -> Bite:
    """Explores from seed 0 on until the bug shows."""
    began = time.monotonic()
    states = seeds = 0
    how = ""
    with planted(bug):
        while not how and states < bug.states_max:
            explored = explore(seeds, failures_max=1)
            states += explored.states
            how = explored.failures[0] if explored.failures else ""
            seeds += 1
    return Bite(bug.name, states, seeds, time.monotonic() - began, how)


def find_planted(*, jobs: int, plants: list[Plant] | None = None) -> Part:
    """All of them, then their workloads without a bug. Leaves the part `teeth-storage`; figures: states until
    each was found."""
    began = time.monotonic()
    tried = {bug.name: bug for bug in plants or PLANTS}
    bites: dict[str, Bite] = {}
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for found in pool.imap_unordered(_bite_by_name, tried):
            print(
                f"{found.name}: {found.states:,} states, {found.seconds:.1f} s", file=sys.stderr, flush=True
            )
            bites[found.name] = found
        without_bugs = pool.map(explore, range(max(each.seeds for each in bites.values())), chunksize=1)
    failures = [
        f"{each.name} was not found in {each.states:,} states" for each in bites.values() if not each.how
    ]
    found_count = len(tried) - len(failures)
    failures += [
        f"without any planted bug: {failure}" for explored in without_bugs for failure in explored.failures
    ]
    print(table([bites[name] for name in tried], tried))
    part = Part(
        name="teeth-storage",
        seconds=round(time.monotonic() - began, 1),
        figures={
            "planted": len(tried),
            "found": found_count,
            **{name: each.states for name, each in sorted(bites.items())},
            "states of the same workloads without a bug": sum(each.states for each in without_bugs),
        },
        failures=failures,
    )
    save(part)
    return part


def table(bites: Sequence[Bite], plants: Mapping[str, Plant]) -> str:
    """found by: the rule that the first finding breaks (see verdict.py)."""
    rows = [("bug", "found by", "workloads", "states", "s", "breaks")]
    for each in bites:
        rows.append(
            (
                each.name,
                each.how.partition(":")[0] or "NOT FOUND",
                str(each.seeds),
                f"{each.states:,}",
                f"{each.seconds:.1f}",
                plants[each.name].breaks,
            )
        )
    return aligned(rows)


def _bite_by_name(name: str) -> Bite:
    (bug,) = (bug for bug in PLANTS if bug.name == name)
    return bite(bug)
