"""Search by coverage for an input that a decoder does not stand.

    python -m tests.fuzz                          all targets, for five minutes
    python -m tests.fuzz --minutes 0              what earlier searches kept, without a fuzzer
    python -m tests.fuzz --only login --keep      one; what it reached is committed (tests/fuzz/corpus)
    python -m tests.fuzz --replay login FILE      one input again, with its traceback

Exit status: 0 nothing was found, 1 something was, or the search could not run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.reduce import few
from tests.fuzz.target import INPUT_BYTES_MAX, keep, kept
from tests.fuzz.targets import TARGETS
from tests.proof.part import Figure, Part, save

FOUND = Path("build/fuzz")
INPUT_SECONDS_MAX = 10
MEMORY_MIB_MAX = 512
END_SECONDS_MAX = 60
COVERAGE = re.compile(r" cov: ([0-9]+) ")
STATISTIC = re.compile(r"stat::(\w+): +([0-9]+)")


class Searched(NamedTuple):
    """executed: inputs. reached: edges of the instrumented modules. inputs: those that reached new ones."""

    name: str
    executed: int
    reached: int
    inputs: list[bytes]
    failure: str


def search(name: str, *, seconds: int, work: Path) -> Searched:
    """Search in a process of its own, and wait for its end."""
    folder = work / name
    folder.mkdir()
    target = TARGETS[name]
    for number, data in enumerate([*target.seeds(), *kept(name)]):
        (folder / f"begin-{number}").write_bytes(data)
    FOUND.mkdir(parents=True, exist_ok=True)
    options = {
        "max_total_time": seconds,
        "max_len": INPUT_BYTES_MAX,
        "timeout": INPUT_SECONDS_MAX,
        "rss_limit_mb": MEMORY_MIB_MAX,
        "keep_seed": 1,
        "print_final_stats": 1,
        "artifact_prefix": f"{FOUND}/{name}-",
    }
    log = FOUND / f"{name}.log"
    with log.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.search", name, str(folder)]
            + [f"-{option}={value}" for option, value in options.items()],
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=seconds + END_SECONDS_MAX,
            check=False,
        )
    text = log.read_text(encoding="utf-8", errors="replace")
    statistics = {key: int(value) for key, value in STATISTIC.findall(text)}
    reached = [int(edges) for edges in COVERAGE.findall(text)]
    return Searched(
        name,
        executed=statistics.get("number_of_executed_units", 0),
        reached=max(reached, default=0),
        inputs=[path.read_bytes() for path in sorted(folder.iterdir())],
        failure=_failure(name, text) if ended.returncode else "",
    )


def repeat(name: str) -> Searched:
    """Try what earlier searches kept, in this process."""
    target = TARGETS[name]
    inputs = [*target.seeds(), *kept(name)]
    failure = ""
    for data in inputs:
        try:
            target.run(data)
        except Exception as error:
            failure = f"{name}: {error!r} for {data!r}"
    return Searched(name, executed=len(inputs), reached=0, inputs=[], failure=failure)


def _failure(name: str, text: str) -> str:
    error = re.search(r"=== Uncaught Python exception: ===\n(.*)", text) or re.search(r"ERROR: (.*)", text)
    written = re.search(r"Test unit written to (\S+)", text)
    what = error[1] if error else f"see {FOUND}/{name}.log"
    return f"{name}: {what}" + (f" (python -m tests.fuzz --replay {name} {written[1]})" if written else "")


def part_of(searched: list[Searched], *, seconds: float) -> Part:
    figures: dict[str, Figure] = {"inputs executed": sum(each.executed for each in searched)}
    for each in searched:
        figures[f"{each.name}: inputs executed"] = each.executed
        if each.reached:
            figures[f"{each.name}: edges reached"] = each.reached
    return Part(
        name="fuzz",
        seconds=seconds,
        figures=figures,
        failures=[each.failure for each in searched if each.failure],
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", action="append", choices=list(TARGETS), help="may be repeated")
    parser.add_argument("--keep", action="store_true", help="commit the inputs that reached something")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"))
    arguments = parser.parse_args()
    if arguments.replay:
        name, path = arguments.replay
        print("taken" if TARGETS[name].run(Path(path).read_bytes()) else "refused")
        return 0
    names = arguments.only or list(TARGETS)
    began = time.monotonic()
    if not arguments.minutes:
        searched = [repeat(name) for name in names]
    elif find_spec("atheris") is None:
        print("did not run: Atheris is not installed; it has no build for this machine or this Python")
        return 1
    else:
        seconds = max(1, round(arguments.minutes * 60 * min(arguments.jobs, len(names)) / len(names)))
        with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(arguments.jobs) as pool:
            searched = list(pool.map(lambda name: search(name, seconds=seconds, work=Path(work)), names))
    part = part_of(searched, seconds=time.monotonic() - began)
    save(part)
    for key, figure in part.figures.items():
        print(f"{key}: {figure:,}")
    print(*part.failures, "holds" if part.is_ok else "DOES NOT HOLD", sep="\n")
    if arguments.keep:
        for each in searched:
            target = TARGETS[each.name]
            keep(each.name, few(target.run, [*kept(each.name), *each.inputs], beyond=target.seeds()))
    return 0 if part.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
