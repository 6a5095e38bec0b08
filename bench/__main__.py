"""`python -m bench`: starts what is to be measured, runs the cases, prints the table, writes the JSON."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from bench import report
from bench.cases import CASES, TLS_CASES, NoSuchCase, select_cases
from bench.kafka import Kafka, KafkaNotUsable
from bench.load_spec import LoadFailed
from bench.machine import machine_facts, processors
from bench.run import JIT_WARMUP_CASES, Plan, Row, run_plan, warm_up
from bench.sides import (
    BROKERS,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    RETENTION_BYTES,
    SEGMENT_BYTES,
    Side,
    Springtide,
)
from localcluster.java import JavaNotFound
from localcluster.ports import PortTaken
from localcluster.processes import ProcessFailed
from localcluster.rest import RestFailed
from localcluster.zookeeper import ZooKeeperJarsNotFound

EXIT_FAILED = 1
TLS = "with tls"
ROUNDS, SECONDS = 3, 4.0
ROUNDS_QUICK, SECONDS_QUICK = 1, 1.5

HOW_TO_COMPARE = (
    "Springtide alone. To compare: `make bench KAFKA_HOME=DIR` or `python -m bench --kafka-home DIR`, where "
    "DIR/libs holds the jars of an Apache Kafka 3.3 or later (an unpacked download has them)."
)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Throughput, latency, CPU and memory, alone or beside Apache Kafka.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer cases, one short round")
    parser.add_argument("--rounds", type=int, help=f"rounds a case (default {ROUNDS}; quick {ROUNDS_QUICK})")
    parser.add_argument(
        "--seconds", type=float, help=f"measured a round (default {SECONDS:g}; quick {SECONDS_QUICK:g})"
    )
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="NAME",
        help="only this one (also a pattern: '*-66k-*')",
    )
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    compared = parser.add_mutually_exclusive_group()
    compared.add_argument(
        "--kafka-home", type=Path, metavar="DIR", help="compare with the Kafka whose jars are in DIR/libs"
    )
    compared.add_argument(
        "--tls",
        action="store_true",
        help="compare TLS, between all processes, with none: a few cases unless --case names others",
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"), help="where the figures go")
    return parser


class Narrator:
    """Progress on standard error, with the seconds since the start: standard output is for the table."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()

    def __call__(self, line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - self._started_at:6.1f} s] {line}\n")
        sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Exits with 0 when every case was measured, 1 when something failed, 2 on a wrong command line."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    if options.list:
        say([f"{case.name:<32} {case.description}" for case in CASES])
        return
    try:
        plan = Plan(
            cases=select_cases(options.case or (TLS_CASES if options.tls else ()), is_quick=options.quick),
            rounds=options.rounds or (ROUNDS_QUICK if options.quick else ROUNDS),
            seconds=options.seconds or (SECONDS_QUICK if options.quick else SECONDS),
            is_quick=options.quick,
        )
    except NoSuchCase as unknown:
        parser.error(str(unknown))
    if plan.rounds < 1 or plan.seconds <= 0:
        parser.error("--rounds and --seconds must be above 0")
    narrate = Narrator()
    try:
        run(plan, options.kafka_home, options.output, narrate, with_tls=options.tls)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except (
        *(JavaNotFound, ZooKeeperJarsNotFound, KafkaNotUsable, PortTaken),
        *(ProcessFailed, RestFailed, LoadFailed, TimeoutError),
    ) as failure:
        sys.stderr.write(f"bench: {failure}\n")
        sys.exit(EXIT_FAILED)


def _exit_on_sigterm(number: int, frame: FrameType | None) -> None:
    """Lets `with` blocks stop what they started."""
    raise SystemExit(128 + number)


def say(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def run(
    plan: Plan, kafka_home: Path | None, output: Path, narrate: Narrator, *, with_tls: bool = False
) -> None:
    """Measure and report. All that was started is stopped when this returns or raises."""
    machine = machine_facts()
    rows: list[Row] = []
    kafka = None if kafka_home is None else Kafka(kafka_home, narrate)
    if kafka is not None:
        machine["kafka"] = kafka.version

    def on_row(row: Row) -> None:
        rows.append(row)
        write_json(output, plan, machine, rows)  # after each: an interrupted run keeps what it has measured

    with ExitStack() as running:
        sides: list[Side] = [running.enter_context(Springtide(narrate))]
        if with_tls:
            sides.insert(0, running.enter_context(Springtide(narrate, name=TLS, is_secure=True)))
        if kafka is not None:
            sides.append(running.enter_context(kafka))
            for side in sides:
                warm_up([case for case in CASES if case.name in JIT_WARMUP_CASES], side, narrate)
        run_plan(plan, sides, narrate, on_row)
        narrate("stopping")
    narrate(f"stopped; figures are in {output}")
    print_report(rows, machine)


def print_report(rows: Sequence[Row], machine: dict[str, Any]) -> None:
    say(["", *report.table(rows), ""])
    say(report.legend(client_rows=any(row.case.kind.is_client for row in rows)))
    if "kafka" in machine:
        say(["", f"How many times better Springtide is than Kafka {machine['kafka']} (below 1: worse):", ""])
        say([*report.ratio_table(rows), "", *report.verdict(rows, ours="Springtide", theirs="Kafka")])
    elif any(TLS in row.medians for row in rows):
        say(["", "How many times as good figures are with TLS as without (below 1: what TLS costs):", ""])
        say(report.ratio_table(rows))
    else:
        say(["", HOW_TO_COMPARE])
    if warning := report.disturbance(rows, processors=processors()):
        say(["", warning])
    say(["", "; ".join(report.machine_lines(machine))])


def write_json(output: Path, plan: Plan, machine: dict[str, Any], rows: Sequence[Row]) -> None:
    """A row a case, with both sides' medians and rounds. Units are in the names."""
    document = {
        "machine": machine,
        "settings": {
            "brokers": BROKERS,
            "replication_factor": REPLICATION_FACTOR,
            "min_insync_replicas": MIN_INSYNC_REPLICAS,
            "segment_bytes": SEGMENT_BYTES,
            "retention_bytes": RETENTION_BYTES,
            "rounds": plan.rounds,
            "seconds": plan.seconds,
            "warmup_seconds": plan.warmup_s,
        },
        "cases": [
            {
                "case": row.case.name,
                "description": row.case.description,
                "operation": row.case.operation,
                "parameters": asdict(row.case),
                "sides": {
                    name: {"median": asdict(median), "rounds": [asdict(one) for one in row.rounds[name]]}
                    for name, median in row.medians.items()
                },
                "ratios": None if row.ratios is None else asdict(row.ratios),
            }
            for row in rows
        ],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    partial.replace(output)


if __name__ == "__main__":
    main()
