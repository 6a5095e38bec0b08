"""Row 6, first part: the sink's delivery against simulated brokers, many seeds, and planted bugs to be found.

The simulation itself is tests/pipeline_sim/; one seed is one query of a few micro-batches with attempts that
die, double or linger, and brokers that are elected, cleanly or not, forget producers and lose answers.
"""

from __future__ import annotations

import time
from collections import Counter

from tests.pipeline_proof.part import proving
from tests.pipeline_sim.plants import PLANTS
from tests.pipeline_sim.simulation import FAULTS, run_seed

HUNTED_SEEDS = 400
GAPS_OF_SEEDS = 0.01
"""A leader that changes twice, unseen, and back: such a micro-batch is refused for good, never half right."""


def prove_sink(*, seeds: int, first: int) -> bool:
    """True when every seed held and every planted bug was found."""
    with proving(row=6, part="simulation") as part:
        began = time.monotonic()
        marks: Counter[str] = Counter()
        records = gaps = 0
        for seed in range(first, first + seeds):
            verdict = run_seed(seed)
            part.missing += len(verdict.missing)
            part.duplicates += len(verdict.duplicates)
            part.inversions += len(verdict.inversions)
            if verdict.is_wrong:
                part.fail(f"seed {seed}: {verdict}")
            marks.update(verdict.marks)
            records += verdict.records
            gaps += verdict.gaps
        seconds = time.monotonic() - began
        found = [name for name in PLANTS if _is_found(name)]
        part.figures |= {
            "seeds": seeds,
            "records": records,
            "task attempts": marks["attempts"],
            "logs scanned instead of memory believed": marks["scans"],
            "micro-batches refused, records lost by a broker": marks["RECORDS_LOST"],
            f"micro-batches refused for a gap, of seeds at most {GAPS_OF_SEEDS:.0%}": gaps,
            "planted bugs found": f"{len(found)} of {len(PLANTS)}",
            "seeds per second": seeds / seconds,
        }
        part.faults |= {kind: marks[kind] for kind in FAULTS if marks[kind]}
        if gaps > max(1, seeds * GAPS_OF_SEEDS):
            part.fail(f"{gaps} of {seeds} seeds ended in a gap")
        for name in sorted(PLANTS.keys() - set(found)):
            part.fail(f"the planted bug {name!r} was not found in {HUNTED_SEEDS} seeds")
        print(f"{seeds} seeds: {records} records, {part.failures or 'all held'}", flush=True)
        return part.is_ok


def _is_found(name: str) -> bool:
    plant, kinds = PLANTS[name]
    return any(run_seed(seed, plant=plant, kinds=kinds).is_wrong for seed in range(HUNTED_SEEDS))
