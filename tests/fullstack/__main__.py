"""`python -m tests.fullstack run --seed N` replays one seed; `sweep --seeds 200` runs many; `2013` the famous
schedule."""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.fullstack.figures import part_of, table
from tests.fullstack.run import FAULTS_MS, Result, run_seed
from tests.proof.part import save
from tests.simulation.schedule import from_json, to_json

COMPARED_EVERY = 20
"""One seed in so many runs a second time, in another process with another hash seed."""
OTHER_HASH_SEED = "4711"
SHOWN_EVERY_S = 10.0


def _run_one(arguments: tuple[int, int]) -> Result:
    seed, faults_ms = arguments
    return run_seed(seed, faults_ms=faults_ms)


def digest_elsewhere(seed: int, *, faults_ms: int) -> str:
    """The digest of the same seed in a fresh process under another hash seed."""
    command = [sys.executable, "-m", "tests.fullstack", "digest", "--seed", str(seed)]
    command += ["--faults-ms", str(faults_ms)]
    found = subprocess.run(
        command,
        env={**os.environ, "PYTHONHASHSEED": OTHER_HASH_SEED},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def progress(results: Sequence[Result], count: int, *, seconds: float) -> str:
    """One line about a sweep of `count` seeds that goes on."""
    failed = sum(1 for result in results if result.failures)
    left = seconds * (count - len(results)) / max(len(results), 1)
    return f"{seconds:6.0f} s: {len(results):,} of {count:,} seeds, {failed} failed, {left:.0f} s to go"


def sweep(first: int, count: int, *, jobs: int, faults_ms: int) -> int:
    began = shown = time.monotonic()
    results: list[Result] = []
    gc.freeze()  # the workers' collectors need not go through what is there already, before each seed
    with get_context("fork").Pool(jobs) as pool:
        seeds = [(seed, faults_ms) for seed in range(first, first + count)]
        for result in pool.imap_unordered(_run_one, seeds):
            results.append(result)
            if result.failures:
                print(result.report(), flush=True)
            if time.monotonic() - shown >= SHOWN_EVERY_S:
                shown = time.monotonic()
                print(progress(results, count, seconds=shown - began), flush=True)
    again = [result for result in results if result.seed % COMPARED_EVERY == 0]
    with ThreadPoolExecutor(jobs) as threads:  # each waits for a process of its own
        digests = threads.map(partial(digest_elsewhere, faults_ms=faults_ms), [r.seed for r in again])
        differing = [
            result.seed for result, digest in zip(again, digests, strict=True) if digest != result.digest
        ]
    seconds = time.monotonic() - began
    part = part_of(results, seconds=seconds, compared=len(again), differing=differing)
    save(part)
    print(table(part))
    return 0 if part.is_ok else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fullstack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="replay one seed, or a saved schedule under its options")
    one.add_argument("--schedule", type=Path, metavar="FILE", help="strikes as JSON, instead of the seed's")
    one.add_argument("--save-schedule", type=Path, metavar="FILE", help="where to write the seed's strikes")
    digest = commands.add_parser("digest", help="print the digest of one seed's run, nothing else")
    for command in (one, digest):
        command.add_argument("--seed", type=int, required=True)
        command.add_argument("--faults-ms", type=int, default=FAULTS_MS)
    many = commands.add_parser("sweep", help="run many seeds and leave the figures of tier-b")
    many.add_argument("--seeds", type=int, default=200)
    many.add_argument("--first", type=int, default=1)
    many.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    many.add_argument("--faults-ms", type=int, default=FAULTS_MS)
    year = commands.add_parser("2013", help="the schedule of 2013 and its control, as part 2013-tier-b")
    year.add_argument("--seed", type=int, default=2013)
    arguments = parser.parse_args()
    match arguments.command:
        case "sweep":
            return sweep(arguments.first, arguments.seeds, jobs=arguments.jobs, faults_ms=arguments.faults_ms)
        case "digest":
            print(run_seed(arguments.seed, faults_ms=arguments.faults_ms).digest)
            return 0
        case "2013":
            from tests.fullstack.year_2013 import main as main_2013

            return main_2013(arguments.seed)
        case _:
            return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    strikes = None if arguments.schedule is None else from_json(arguments.schedule.read_bytes())
    result = run_seed(arguments.seed, faults_ms=arguments.faults_ms, strikes=strikes)
    if arguments.save_schedule is not None:
        arguments.save_schedule.write_bytes(to_json(result.strikes))
    print(result.report())
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
