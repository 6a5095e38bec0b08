"""`python -m tests.faults.jepsen2013`: the schedule with our defaults, then with the settings of 2013.

Prints what happens while it happens, then the table beside the published one. Exit code 0: with our defaults
nothing was lost, and the control run lost something that is to be found; 1: something of it did not hold;
3: this machine can't run simulated hosts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.hosts.cluster import HostCluster
from tests.faults.hosts.sandbox import SandboxUnavailable, enter_sandbox, why_no_sandbox
from tests.faults.jepsen2013.conduct import CONTROLLERS, Schedule, Tell
from tests.faults.jepsen2013.figure import Bar, render_svg
from tests.faults.jepsen2013.report import (
    ORIGINAL,
    Result,
    failures,
    render_details,
    render_lost,
    render_table,
    to_part,
)
from tests.faults.jepsen2013.schedule import BROKERS, LED_BY_ONE, PARTITIONS, RATE_DEFAULT, Plan
from tests.proof.part import DIRECTORY, save

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_UNAVAILABLE = 3


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.jepsen2013",
        description="The schedule under which Kafka lost writes in 2013, against real processes.",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE_DEFAULT,
        help=f"integers a second of each writer; as published: 2 (default {RATE_DEFAULT:g})",
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--control", action="store_true", help="only the run with the settings of 2013")
    only.add_argument("--no-control", action="store_true", help="only the run with our defaults")
    parser.add_argument(
        "--idempotent",
        action="store_true",
        help="in the run with our defaults: writers as one configures them today. Not in the control, where "
        "the log forgets what such a client remembers: it notices and gives up",
    )
    parser.add_argument(
        "--led-by-one",
        type=int,
        default=LED_BY_ONE,
        choices=range(1, PARTITIONS),
        help=f"partitions that prefer broker 1 (default {LED_BY_ONE})",
    )
    parser.add_argument(
        "--victim",
        type=int,
        choices=range(1, BROKERS + 1),
        help="the broker to cut off, which must lead something (default: the one that leads most)",
    )
    parser.add_argument("--zookeepers", type=int, default=1, choices=(1, 3), help="default 1")
    parser.add_argument(
        "--build", type=Path, default=DIRECTORY.parent, help="where figures and histories go (default build)"
    )
    parser.add_argument(
        "--directory", type=Path, help="keep the processes' logs here (default: only if it fails)"
    )
    parser.add_argument("--figure", type=Path, help="draw both runs beside the published one (SVG)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        plan = Plan(rate=options.rate)
    except ValueError as error:
        build_parser().error(str(error))
    if reason := why_no_sandbox():
        print(f"no simulated hosts here: {reason}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    try:
        enter_sandbox()
    except SandboxUnavailable as error:
        print(f"no simulated hosts here: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    results = []
    if not options.control:
        results.append(run_once(plan, options, is_control=False))
    if not options.no_control:
        results.append(run_once(plan, options, is_control=True))
    return report(results, directory=options.build / DIRECTORY.name, figure=options.figure)


def run_once(plan: Plan, options: argparse.Namespace, *, is_control: bool) -> Result:
    """On a cluster of its own."""
    tell = Narrator("control " if is_control else "defaults")
    directory = options.directory and options.directory / ("control" if is_control else "defaults")
    cluster = HostCluster(
        directory,
        brokers=BROKERS,
        controllers=CONTROLLERS,
        zookeepers=options.zookeepers,
        broker_config={"replica.lag.time.max.ms": str(plan.lag_ms_max)},
        clock_faults=False,
        on_progress=tell,
    )
    with cluster:
        cluster.form()
        return Schedule(
            cluster,
            plan,
            tell=tell,
            is_control=is_control,
            is_idempotent=options.idempotent and not is_control,
            led_by_one=options.led_by_one,
            victim=options.victim,
            histories=options.build / "jepsen2013",
        ).run()


class Narrator:
    """Prints each line with the seconds since the run began."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started_at = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{self._name} {time.monotonic() - self._started_at:5.1f} s] {line}", flush=True)


def report(
    results: Sequence[Result],
    *,
    directory: Path = DIRECTORY,
    figure: Path | None = None,
    tell: Tell = print,
) -> int:
    """Prints everything, and saves the part in `directory` when both runs are there: a half is no proof."""
    wrong = [line for result in results for line in failures(result)]
    tell("")
    for result in results:
        for line in [*render_lost(result), *render_details(result)]:
            tell(line)
    tell("")
    for line in render_table([ORIGINAL, *(result.row for result in results)]):
        tell(line)
    by_kind = {result.is_control: result for result in results}
    if len(by_kind) == 2:
        tell(f"figures: {save(to_part(by_kind[False], by_kind[True]), directory)}")
    if figure is not None:
        bars = [Bar.of(row) for row in [ORIGINAL, *(result.row for result in reversed(results))]]
        figure.write_text(render_svg(bars), encoding="utf-8")
        tell(f"drawn: {figure}")
    for line in wrong:
        tell(f"FAILED {line}")
    return EXIT_FAILED if wrong else EXIT_OK
