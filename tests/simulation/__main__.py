"""The simulation by hand: sweep seeds, replay one, shrink a failure, play the schedule of 2013.

    python -m tests.simulation sweep --seeds 500              many seeds in parallel, and a table
    python -m tests.simulation run --seed 57                  one seed, its last events and its figures
    python -m tests.simulation run --schedule FILE            a run that was saved, without its planner
    python -m tests.simulation shrink --seed 57               the smallest run that fails by the same rule
    python -m tests.simulation 2013                           the schedule that lost 520 of 987 records

Exit status: 0 everything held, 1 something failed, 2 there was nothing to run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.proof import part as proof
from tests.simulation import report, schedule_2013
from tests.simulation.corpus import BadCase, Case, encode_case, load_case, run_case
from tests.simulation.schedule import FAMILIES
from tests.simulation.shrink import RUNS_MAX, SECONDS_MAX, NotReproduced, shrink
from tests.simulation.sweep import Plan, Sweep, Totals, table

HELD, FAILED, UNUSABLE = 0, 1, 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("run", "replay one seed or schedule and show its last events"),
        ("shrink", "find the smallest run that fails by the same rule"),
    ):
        one = commands.add_parser(name, help=text)
        which = one.add_mutually_exclusive_group(required=True)
        which.add_argument("--seed", type=int)
        which.add_argument("--schedule", type=Path, metavar="FILE", help="as a failing run leaves it")
        one.add_argument(
            "--family", choices=sorted(FAMILIES), default="", help="of the sweep that drew the seed"
        )
        if name == "shrink":
            one.add_argument("--runs-max", type=int, default=RUNS_MAX)
            one.add_argument("--seconds-max", type=float, default=SECONDS_MAX)
    many = commands.add_parser("sweep", help="run many seeds, the corpus first, and print a table")
    many.add_argument("--seeds", type=int, default=500, help="at least so many")
    many.add_argument("--hours", type=float, default=0.0, help="and until so many hours were simulated")
    many.add_argument("--first", type=int, default=0, help="the first seed")
    many.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    many.add_argument("--marks", action="store_true", help="show how often each mark was reached")
    many.add_argument("--family", choices=sorted(FAMILIES), default="", help="half of the strikes are of it")
    old = commands.add_parser("2013", help="the schedule of Jepsen's first test of Kafka")
    old.add_argument("--seeds", type=int, default=10)
    old.add_argument("--first", type=int, default=0)
    return parser


def _case(arguments: argparse.Namespace) -> Case:
    if arguments.schedule is not None:
        return load_case(arguments.schedule)
    return Plan(first=arguments.seed, seeds=1, family=arguments.family).case(arguments.seed)


def _run(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    verdict = run_case(_case(arguments))
    if verdict.failure is None:
        print("\n".join(verdict.last_events))
    else:
        print(report.report_and_save(verdict))
    totals = Totals(seeds=1)
    totals.add(verdict)
    for name, value in totals.figures(time.monotonic() - began).items():
        print(f"{name:<34} {value}")
    return HELD if verdict.failure is None else FAILED


def _shrink(arguments: argparse.Namespace) -> int:
    case = _case(arguments)
    found = shrink(case, runs_max=arguments.runs_max, seconds_max=arguments.seconds_max)
    path = report.save(found.case, name=f"seed-{case.seed}-shrunk")
    print(report.report(found.verdict, saved=path))
    print(f"{found.strikes_before} strikes became {len(found.verdict.strikes)} in {found.runs} runs")
    print(f"for corpus.jsonl: {encode_case(found.case).decode()}")
    return FAILED


def _sweep(arguments: argparse.Namespace) -> int:
    plan = Plan(
        first=arguments.first,
        seeds=arguments.seeds,
        hours=arguments.hours,
        jobs=arguments.jobs,
        with_corpus=not arguments.family,
        family=arguments.family,
    )
    sweep = Sweep(plan)
    part = sweep.run()
    print(table(part, marks=sweep.totals.marks if arguments.marks else None))
    print(f"figures: {proof.save(part)}")
    return HELD if part.is_ok else FAILED


def _play_2013(arguments: argparse.Namespace) -> int:
    part, text = schedule_2013.play(range(arguments.first, arguments.first + arguments.seeds))
    print(text)
    print(f"figures: {proof.save(part)}")
    return HELD if part.is_ok else FAILED


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    commands = {"run": _run, "shrink": _shrink, "sweep": _sweep, "2013": _play_2013}
    try:
        return commands[asked.command](asked)
    except (BadCase, NotReproduced, OSError) as error:
        print(error, file=sys.stderr)
        return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
