"""`python -m tests.pipeline_proof run` shows every row and writes `build/pipeline-proof.md` and `.json`.

`sink` and `faults` are the two parts of row 6, and can be run on their own: `sink` the exactly-once delivery
against simulated brokers, `faults` real Spark and real brokers that are killed.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.pipeline_proof.part import DIRECTORY, ROWS, Part, load_all
from tests.pipeline_proof.plan import ROWS as TABLE
from tests.pipeline_proof.plan import steps
from tests.pipeline_proof.table import render, row_holds
from tests.proof.__main__ import tree_of_checkout
from tests.proof.plan import Step, drawn_seed, missing
from tests.proof.running import run

MARKDOWN = Path("build/pipeline-proof.md")
JSON = Path("build/pipeline-proof.json")
RUNS = 20
SEEDS = 200


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.pipeline_proof",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="show every row, then print the table")
    runner.add_argument("--only", type=int, action="append", choices=ROWS, metavar="ROW", help="1 to 11")
    sink = commands.add_parser("sink", help="row 6 against simulated brokers")
    sink.add_argument("--seeds", type=int, default=SEEDS)
    sink.add_argument("--first", type=int, default=0, help="the first seed")
    faults = commands.add_parser("faults", help="row 6 with real Spark and real brokers")
    faults.add_argument("--runs", type=int, default=RUNS)
    faults.add_argument("--first", type=int, default=0, help="the first run's seed")
    faults.add_argument("--directory", type=Path, help="keep logs and checkpoints here")
    faults.add_argument("--part", type=Path, default=DIRECTORY, help="where the figures go")
    return parser


def report(chosen: Sequence[Step], wrong: Sequence[str], rows: Sequence[int], tree: str) -> bool:
    """Writes and prints the table; True when everything that was asked for ran and held."""
    parts = [part for part in load_all() if part.row in rows]
    names = {part.name for part in parts}
    absent = missing(chosen, names.__contains__)
    asked = [row for row in TABLE if row.number in rows]
    text = render(parts, absent, subject=f"tree {tree[:12]}, Python {platform.python_version()}", rows=asked)
    if wrong:
        text += "\n" + "\n".join(f"- {line}" for line in wrong) + "\n"
    holds = {row.number: row_holds(row, parts, absent) for row in asked}
    is_ok = not wrong and all(holds.values())
    MARKDOWN.parent.mkdir(exist_ok=True)
    MARKDOWN.write_text(text, encoding="utf-8")
    page: dict[str, bool | str | list[str] | dict[int, bool] | list[Part]] = {
        "holds": is_ok,
        "tree": tree,
        "rows": holds,
        "parts": parts,
        "did_not_run": absent,
        "wrong": list(wrong),
    }
    JSON.write_bytes(msgspec.json.format(msgspec.json.encode(page), indent=2) + b"\n")
    print(text)
    return is_ok


def run_rows(rows: Sequence[int]) -> bool:
    """The steps of these rows, one after another."""
    tree = tree_of_checkout()
    wanted = {f"{row:02d}-" for row in rows}
    first = drawn_seed()
    print(f"first seed: {first}", flush=True)
    chosen = [step for step in steps(first) if any(part[:3] in wanted for part in step.parts)]
    for step in chosen:  # An earlier run's figures are not this one's.
        for name in step.parts:
            (DIRECTORY / f"{name}.json").unlink(missing_ok=True)
    return report(chosen, run(chosen), rows, tree)


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    match options.command:
        case "run":
            is_ok = run_rows(sorted(set(options.only or ROWS)))
        case "sink":
            from tests.pipeline_proof.sink import prove_sink

            is_ok = prove_sink(seeds=options.seeds, first=options.first)
        case _:
            from tests.pipeline_proof.faults.proof import prove_faults

            is_ok = prove_faults(
                runs=options.runs,
                first=options.first,
                directory=options.directory,
                part_directory=options.part,
            )
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
