"""All operations, in parallel processes, until there were as many cases as were asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.hostile.drawing import Drawer
from tests.hostile.rounds import MIXED, Job, Tally, jobs_for, run_job

#: Random cases of each operation, beside those that walk the document; fewer where fewer cases are asked for.
FUZZ_FIRST = 40
MIXED_ROUNDS = 2
FUZZ_MORE = 25


@dataclass
class Result:
    seed: int
    labels: Sequence[str]
    tally: Tally = field(default_factory=Tally)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


def sweep(*, cases: int, seed: int, jobs: int, only: Sequence[str] = ()) -> Result:
    """Never fewer cases than asked for, unless only some operations are wanted."""
    started = time.monotonic()
    known = Drawer().labels
    unknown = [label for label in only if label not in known and label != MIXED]
    if unknown:
        raise SystemExit(f"no such operation: {', '.join(unknown)}; there are\n" + "\n".join(known))
    labels = [label for label in known if not only or label in only]
    result = Result(seed, labels)
    work = jobs_for(labels, min(FUZZ_FIRST, cases // len(labels)), seed)
    if not only or MIXED in only:
        work += [Job((MIXED,), 0, seed + number) for number in range(MIXED_ROUNDS)]
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        _run(pool, work, result)
        round_number = 0
        while not only and not result.broken and result.tally.cases < cases:
            round_number += 1
            _run(pool, jobs_for(labels, FUZZ_MORE, seed + 1_000_000 * round_number), result)
    result.seconds = time.monotonic() - started
    return result


def _run(pool: ProcessPoolExecutor, work: Sequence[Job], result: Result) -> None:
    pending: list[tuple[Job, Future[Tally]]] = [(job, pool.submit(run_job, job)) for job in work]
    for job, future in pending:
        try:
            tally = future.result()
            result.tally.merge(tally)
            wrong = "".join(f"; {finding.title}" for finding in tally.findings.found.values())
            print(f"{tally.cases:6,} {job.name}{wrong}", file=sys.stderr, flush=True)
        except Exception as error:  # a round that can't be played is a failure like any other
            result.broken.append(f"{job.name}, seed {job.seed}: {type(error).__name__}: {error}"[:2_000])
