"""`python -m tests.simulation run --seed N` replays one; `... sweep --seeds 500` runs many in parallel."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from multiprocessing import get_context

from tests.simulation.run import FAULTS_MS, Verdict, run_seed


def sweep(first: int, count: int, *, jobs: int, faults_ms: int) -> tuple[list[Verdict], float]:
    """Run seeds first .. first+count-1 in `jobs` processes; verdicts as they end, and seconds taken."""
    began = time.monotonic()
    verdicts: list[Verdict] = []
    shows_progress = sys.stderr.isatty()
    with get_context("fork").Pool(jobs) as pool:
        for verdict in pool.imap_unordered(
            _run_one, [(seed, faults_ms) for seed in range(first, first + count)], chunksize=4
        ):
            verdicts.append(verdict)
            if shows_progress and len(verdicts) % 10 == 0:
                print(f"\r{len(verdicts)}/{count} seeds", end="", file=sys.stderr, flush=True)
    if shows_progress:
        print(file=sys.stderr)
    return verdicts, time.monotonic() - began


def _run_one(arguments: tuple[int, int]) -> Verdict:
    seed, faults_ms = arguments
    return run_seed(seed, faults_ms=faults_ms)


def summary(verdicts: list[Verdict], seconds: float) -> str:
    simulated_s = sum(v.simulated_ms for v in verdicts) / 1000
    faults: Counter[str] = Counter()
    for verdict in verdicts:
        faults.update(verdict.faults)
    recoveries = sorted(v.recovery_ms for v in verdicts if v.recovery_ms >= 0) or [0]
    failed = [v for v in verdicts if v.failure is not None]
    rows = [
        ("seeds", f"{len(verdicts)}, of which {len(failed)} failed"),
        ("simulated", f"{simulated_s / 3600:.2f} hours, {simulated_s / max(seconds, 1e-9):.0f} s a second"),
        ("events", f"{sum(v.events for v in verdicts):,}"),
        ("records acknowledged", f"{sum(v.acked for v in verdicts):,}"),
        ("partition state changes", f"{sum(v.isr_changes for v in verdicts):,}"),
        ("leader elections", f"{sum(v.leader_changes for v in verdicts):,}"),
        ("controller elections", f"{sum(v.controller_elections for v in verdicts):,}"),
        ("divergent suffixes aside", f"{sum(v.truncations_written_aside for v in verdicts):,}"),
        ("recovery ms, median and worst", f"{recoveries[len(recoveries) // 2]}, {recoveries[-1]}"),
        ("faults", f"{sum(faults.values()):,}: " + ", ".join(f"{k} {n}" for k, n in faults.most_common())),
    ]
    return "\n".join(f"{name:<30} {value}" for name, value in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="replay one seed and show its last events")
    one.add_argument("--seed", type=int, required=True)
    one.add_argument("--faults-ms", type=int, default=FAULTS_MS, help="length of the safety phase")
    many = commands.add_parser("sweep", help="run many seeds and print a table")
    many.add_argument("--seeds", type=int, default=500)
    many.add_argument("--first", type=int, default=0)
    many.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    many.add_argument("--faults-ms", type=int, default=FAULTS_MS)
    arguments = parser.parse_args()
    if arguments.command == "run":
        verdict = run_seed(arguments.seed, faults_ms=arguments.faults_ms)
        print(verdict.report() if verdict.failure else "\n".join(verdict.last_events))
        print(summary([verdict], 1.0))
        return 1 if verdict.failure else 0
    verdicts, seconds = sweep(
        arguments.first, arguments.seeds, jobs=arguments.jobs, faults_ms=arguments.faults_ms
    )
    failed = sorted((v for v in verdicts if v.failure is not None), key=lambda v: v.seed)
    for verdict in failed[:3]:
        print(verdict.report(), end="\n\n")
    for verdict in failed[3:40]:
        print(f"seed {verdict.seed} failed: {verdict.failure}")
    print(summary(verdicts, seconds))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
