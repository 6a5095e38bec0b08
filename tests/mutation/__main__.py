"""`python -m tests.mutation`: which small changes of the product does no unit test notice?

    python -m tests.mutation --sample 400                       so many mutants of the whole, drawn by --seed
    python -m tests.mutation --files 'dataplane/core/isr.py'    those of some files
    python -m tests.mutation --quick 0.5                        without slow tests: a first, rough look
    python -m tests.mutation --again                            those that survived, after tests were added

Results are appended to --out, and what stands there is not run again: a run may be ended and taken up. A
larger sample of the same seed holds the smaller one. Survivors with a reason stand in reasons/ here.
Run it with `nice`; it takes hours for the whole, and is not part of CI.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.mutation.forked import HANGS, KILLED, ROOT, SURVIVED, UNSEEN, Runner, Verdict
from tests.mutation.mutants import Mutant, mutants_of

FOLDERS = ("dataplane/core", "controller/core", "coordinator/core", "dataplane/storage")
TESTS = ("tests/unit/dataplane", "tests/unit/controller", "tests/unit/coordinator")
REASONS = Path(__file__).with_name("reasons")


def source_files() -> list[str]:
    """Return the files that are mutated, from the root."""
    return [
        str(path.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def all_mutants() -> list[Mutant]:
    return [
        mutant
        for file in source_files()
        for mutant in mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))
    ]


def drawn(mutants: list[Mutant], *, files: list[str], sample: int, seed: int) -> list[Mutant]:
    """In an order that depends on names alone, so that an edited function moves no other mutant."""
    of_files = [each for each in mutants if any(fnmatch.fnmatch(each.file, pattern) for pattern in files)]
    of_files.sort(key=lambda each: hashlib.sha256(f"{seed} {each.name}".encode()).digest())
    return of_files[:sample]


def read_reasons(folder: Path = REASONS) -> dict[str, str]:
    """Name of a mutant, or pattern of names in which `*` stands for anything, to why it may survive. In the
    files: a line of the name, then indented lines of the reason."""
    reasons: dict[str, str] = {}
    name = ""
    for path in sorted(folder.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("    "):
                reasons[name] = f"{reasons.get(name, '')} {line.strip()}".strip()
            elif line and not line.startswith("#"):
                name = line
    return reasons


def is_explained(name: str, reasons: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, each.replace("[", "[[]").replace("?", "[?]")) for each in reasons)


def read_results(path: Path) -> dict[str, Verdict]:
    if not path.exists():
        return {}
    return {
        verdict.name: verdict
        for line in path.read_text(encoding="utf-8").splitlines()
        for verdict in (Verdict(**json.loads(line)),)
    }


def summary(mutants: list[Mutant], results: dict[str, Verdict], reasons: dict[str, str]) -> str:
    done = [results[mutant.name] for mutant in mutants if mutant.name in results]
    alive = [each for each in done if each.verdict in (SURVIVED, UNSEEN)]
    counts = Counter(each.verdict for each in done)
    open_ones = sorted(
        (each for each in alive if not is_explained(each.name, reasons)), key=lambda each: each.name
    )
    lines = [f"{each.verdict} line {each.line}: {each.name}" for each in open_ones]
    lines.append(
        f"{len(done)} of {len(mutants)} tried: {counts[KILLED]} killed, {counts[HANGS]} hang, "
        f"{counts[SURVIVED]} survived, {counts[UNSEEN]} on lines that no test executes; "
        f"{100 * len(alive) / max(1, len(done)):.1f} % alive, "
        f"{len(alive) - len(open_ones)} of them with a reason"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--tests", nargs="+", default=list(TESTS), metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no mutant after so many")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutation.jsonl")
    parser.add_argument(
        "--seen", type=Path, help="what the tests execute; default: beside --out, each run anew"
    )
    parser.add_argument("--quick", type=float, default=math.inf, help="only tests of so many seconds at most")
    parser.add_argument("--again", action="store_true", help="try once more what survived")
    parser.add_argument("--show", action="store_true", help="run nothing, show the results")
    arguments = parser.parse_args()
    mutants = drawn(all_mutants(), files=arguments.files, sample=arguments.sample, seed=arguments.seed)
    results = read_results(arguments.out)
    if not arguments.show:
        _run(arguments, mutants, results)
        results = read_results(arguments.out)
    print(summary(mutants, results, read_reasons()))
    return 0


def _run(arguments: argparse.Namespace, mutants: list[Mutant], results: dict[str, Verdict]) -> None:
    alive = {name for name, each in results.items() if each.verdict in (SURVIVED, UNSEEN)}
    to_do = [
        mutant
        for mutant in mutants
        if (mutant.name in alive if arguments.again else mutant.name not in results)
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    seen_file: Path = arguments.seen or arguments.out.with_suffix(".seen.json")
    if arguments.seen is None:
        seen_file.unlink(missing_ok=True)
    began = math.inf
    count = 0
    with arguments.out.open("a", encoding="utf-8") as out:

        def told(verdict: Verdict) -> None:
            nonlocal count, began
            count += 1
            if verdict.verdict == UNSEEN and verdict.name in results:
                verdict = results[verdict.name]  # --tests were new ones only: it survived the others
            began = min(began, time.monotonic() - verdict.seconds)  # coverage is over
            print(json.dumps(asdict(verdict)), file=out, flush=True)
            each_s = (time.monotonic() - began) / count
            print(
                f"{count}/{len(to_do)} {verdict.verdict} {verdict.seconds:.1f} s, "
                f"{60 / each_s:.0f} a minute, {each_s * (len(to_do) - count) / 60:.0f} minutes left: "
                f"{verdict.name}",
                file=sys.__stderr__,
                flush=True,
            )
            if time.monotonic() - began > 60 * arguments.minutes:
                pytest.exit("the time is up")

        runner = Runner(to_do, seen_file=seen_file, jobs=arguments.jobs, quick_s=arguments.quick, told=told)
        options = ("-q", "-s", "-p", "no:cacheprovider")
        pytest.main([*options, *arguments.tests], plugins=[runner])


if __name__ == "__main__":
    sys.exit(main())
