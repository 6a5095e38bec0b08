"""Many workloads' crash states on several processors, and the figures they leave."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator

from tests.powercuts.crash_states import Explored, explore
from tests.proof.part import Part, save

PROGRESS_SECONDS = 10.0
FAILURES_SHOWN = 20


def sweep(*, states: int, first: int, jobs: int) -> Part:
    """Workloads from seed `first` on until so many states were judged. Leaves the part `crash-states`."""
    began = time.monotonic()
    shown = began
    total: Counter[str] = Counter()
    seeds = steps = 0
    failures: list[str] = []
    for explored in _explored(first, jobs=jobs, states=states):
        seeds += 1
        steps += explored.steps
        total.update(explored.by_kind)
        failures += explored.failures
        now = time.monotonic()
        if now - shown >= PROGRESS_SECONDS:
            shown = now
            rate = total.total() / (now - began)
            print(f"{total.total():,} states, {rate:,.0f} a second, {len(failures)} bad", flush=True)
    seconds = time.monotonic() - began
    part = Part(
        name="crash-states",
        seconds=round(seconds, 1),
        figures={
            "states recovered": total.total(),
            "workloads": seeds,
            "operations of the engine": steps,
            "states a second": round(total.total() / seconds),
        },
        faults=dict(sorted(total.items())),
        failures=failures[:FAILURES_SHOWN],
    )
    save(part)
    return part


def _explored(first: int, *, jobs: int, states: int) -> Iterator[Explored]:
    """In waves of two seeds a job, so that the end is near when enough were seen."""
    seen = 0
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        while seen < states:
            wave = range(first, first + 2 * jobs)
            for explored in pool.imap_unordered(explore, wave):
                seen += explored.states
                yield explored
            first = wave.stop
