"""Runs seeds again in a process of their own with another PYTHONHASHSEED, and compares digests.

A simulation is worth as much as its replays. What makes two runs of one seed differ (the order of a set, an
object's address, something left over from an earlier seed in the same process) shows here first. The second
run comes in a fresh interpreter, in another order, and under another hash seed; both digests must be equal,
that of the events and that of the history.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simulation.run import Verdict, run_seed

ONE_IN = 20
HASH_SEEDS = ("1", "4242", "31337", "77")
SECONDS_MAX = 1_800
SOURCES = ("controller", "coordinator", "dataplane", "tests/simulation")

Digests = tuple[str, str]
"""Of the events and of the history."""


class SecondRunFailed(Exception):
    """The other process did not come to its end, or it could not be the same run."""


def sources_digest() -> str:
    """Of every module that a run is made of. A fresh interpreter reads the files as they are by then."""
    digest = hashlib.blake2b(digest_size=16)
    for package in SOURCES:
        for path in sorted(Path(package).rglob("*.py")):
            digest.update(path.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def is_chosen(seed: int) -> bool:
    """Whether this seed is one of the 5 % that run twice."""
    return seed % ONE_IN == ONE_IN // 2


def digests_of(verdict: Verdict) -> Digests:
    return verdict.digest, verdict.history_digest


def run_elsewhere(seeds: Sequence[int], *, hash_seed: str) -> dict[int, Digests]:
    """Runs them in one fresh interpreter. Raises SecondRunFailed."""
    command = [sys.executable, "-m", "tests.simulation.twice", *map(str, seeds)]
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS_MAX,
        )
    except subprocess.CalledProcessError as error:
        raise SecondRunFailed(f"{' '.join(command)}: {error.stderr[-2_000:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SecondRunFailed(str(error)) from error
    return {int(seed): (one, other) for seed, (one, other) in json.loads(done.stdout).items()}


def compare(first: Mapping[int, Digests], *, jobs: int, sources: str) -> list[str]:
    """Runs all of them again; what differs, one line a seed. sources: `sources_digest` when the first runs
    began. Raises SecondRunFailed."""
    if sources != sources_digest():
        raise SecondRunFailed("source files changed while the first runs ran, so there is nothing to compare")
    seeds = sorted(first, reverse=True)
    parts = [seeds[n::jobs] for n in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        done = [
            pool.submit(run_elsewhere, part, hash_seed=HASH_SEEDS[n % len(HASH_SEEDS)])
            for n, part in enumerate(parts)
            if part
        ]
        second = {seed: digests for each in done for seed, digests in each.result().items()}
    return [
        f"seed {seed} is not the same run twice: digests {first[seed]}, then {second.get(seed)}"
        for seed in sorted(first)
        if second.get(seed) != first[seed]
    ]


def main(arguments: Sequence[str]) -> int:
    digests = {seed: digests_of(run_seed(int(seed))) for seed in arguments}
    print(json.dumps(digests))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
