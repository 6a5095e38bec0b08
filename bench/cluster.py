"""Throughput, latency, CPU and memory of a cluster, alone or beside Apache Kafka: a table and JSON.

Cases of one setup (plain, TLS, ACLs, two workers a broker) run on the same clusters, which are
started for them and stopped after them. Idle clusters are measured before anything is asked of them.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import report
from bench.case import Kind, Setup
from bench.cases import BESIDE_CASES, CASES, NoSuchCase, select_cases
from bench.command import Narrator, WrongCommand, add_kafka_home, add_output, add_quick
from bench.goals import goal_of
from bench.kafka import Kafka, find_version
from bench.machine import keep, machine_facts, processors
from bench.pipe import Pipe
from bench.run import JIT_WARMUP_CASES, Plan, Row, run_cases, warm_up
from bench.sides import (
    BROKERS,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    RETENTION_BYTES,
    SEGMENT_BYTES,
    Side,
    Springtide,
)
from localcluster.processes import exit_on_sigterm

EXIT_FAILED = 1
ROUNDS, SECONDS = 3, 4.0
ROUNDS_QUICK, SECONDS_QUICK = 1, 1.5

HOW_TO_COMPARE = (
    "Springtide alone. To compare: `make bench KAFKA_HOME=DIR`, where DIR/libs holds the jars of an Apache "
    "Kafka 3.3 or later (an unpacked download has them)."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_quick(parser, "fewer cases, one short round")
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
    add_kafka_home(compared)
    compared.add_argument(
        "--tls",
        action="store_const",
        const=Setup.TLS,
        dest="setup",
        help="compare TLS, between all processes, with none: a few cases unless --case names others",
    )
    compared.add_argument(
        "--workers",
        action="store_const",
        const=Setup.WORKERS,
        dest="setup",
        help="compare brokers of two workers with brokers of one, in the same way",
    )
    parser.add_argument(
        "--gate", action="store_true", help="with --kafka-home: exit with 1 if a row is below its goal"
    )
    add_output(parser, "bench")


def run(options: argparse.Namespace) -> int:
    """Return 0 when every case was measured, 1 when, with --gate, one is below its goal."""
    exit_on_sigterm()
    if options.list:
        say([f"{case.name:<34} {case.description}" for case in CASES])
        return 0
    try:
        plan = Plan(
            cases=select_cases(options.case or BESIDE_CASES.get(options.setup, ()), is_quick=options.quick),
            rounds=options.rounds or (ROUNDS_QUICK if options.quick else ROUNDS),
            seconds=options.seconds or (SECONDS_QUICK if options.quick else SECONDS),
            is_quick=options.quick,
        )
    except NoSuchCase as unknown:
        raise WrongCommand(str(unknown)) from None
    if plan.rounds < 1 or plan.seconds <= 0:
        raise WrongCommand("--rounds and --seconds must be above 0")
    if options.gate and options.kafka_home is None:
        raise WrongCommand("--gate needs --kafka-home: goals are ratios to Kafka")
    if options.setup is not None and any(case.setup is not Setup.PLAIN for case in plan.cases):
        raise WrongCommand(
            "--tls and --workers bring their own setup: they take cases of the plain setup only"
        )
    rows = measure(plan, options.kafka_home, options.output, Narrator(), beside=options.setup)
    return status_of(rows, is_gated=options.gate)


def status_of(rows: Sequence[Row], *, is_gated: bool) -> int:
    """The exit status of a run that measured these rows."""
    return EXIT_FAILED if is_gated and report.below_goal(rows) else 0


def say(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def measure(
    plan: Plan, kafka_home: Path | None, output: Path, narrate: Narrator, *, beside: Setup | None = None
) -> list[Row]:
    """Measure and report. All that was started is stopped when this returns or raises. beside: the setup that
    is compared with that of the cases."""
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))  # for 1,000 connections, in children
    machine = machine_facts()
    if kafka_home is not None:
        machine["kafka"] = find_version(kafka_home)
    rows: list[Row] = []

    def on_row(row: Row) -> None:
        rows.append(row)
        write_json(output, plan, machine, rows)  # after each: an interrupted run keeps what it has measured

    sides = 1 if kafka_home is None and beside is None else 2
    narrate(f"{len(plan.cases)} cases, {sides} side{'s' if sides > 1 else ''}, rounds: {plan.rounds}")
    try:
        for setup, cases in plan.by_setup():
            with ExitStack() as running:
                started: list[Side] = [running.enter_context(Springtide(narrate, setup=setup))]
                if beside is not None:
                    other = Springtide(narrate, name=f"with {beside.value}", setup=beside)
                    started.insert(0, running.enter_context(other))
                if kafka_home is not None:
                    started.append(running.enter_context(Kafka(kafka_home, narrate, setup=setup)))
                has_pipe = any(case.has_pipe for case in cases)
                pipe = running.enter_context(Pipe()) if has_pipe else None
                idle = [case for case in cases if case.kind is Kind.IDLE]
                busy = [case for case in cases if case.kind is not Kind.IDLE]
                run_cases(idle, plan, started, narrate, on_row)
                if kafka_home is not None and busy:
                    for side in started:
                        warm_up([case for case in CASES if case.name in JIT_WARMUP_CASES], side, narrate)
                run_cases(busy, plan, started, narrate, on_row, pipe=pipe)
                narrate("stopping")
    finally:
        if rows:
            narrate(f"figures are in {output}")
            print_report(rows, machine, beside=beside)
    return rows


def print_report(rows: Sequence[Row], machine: dict[str, Any], *, beside: Setup | None = None) -> None:
    say(["", *report.table(rows), ""])
    say(report.legend(client_rows=any(row.case.kind.is_client for row in rows)))
    if "kafka" in machine:
        say(["", f"How many times better Springtide is than Kafka {machine['kafka']} (below 1: worse):", ""])
        say([*report.ratio_table(rows), "", *report.verdict(rows, ours="Springtide", theirs="Kafka")])
        say(
            [
                "",
                *(
                    ["Below its goal:", *below]
                    if (below := report.below_goal(rows))
                    else ["All goals are met."]
                ),
            ]
        )
    elif beside is not None:
        say(["", f"How many times as good figures are with {beside.value} as without (below 1: worse):", ""])
        say(report.ratio_table(rows))
    else:
        if shares := report.pipe_lines(rows):
            say(["", *shares])
        say(["", HOW_TO_COMPARE])
    if costs := report.beside_table(rows):
        say(["", "How many times as good a row is as the one beside it, on the same side:", "", *costs])
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
                "warmup_seconds": plan.warmup_s(row.case),
                "measured_seconds": plan.measured_s(row.case),
                "ratios": None if row.ratios is None else asdict(row.ratios),
                "pipe_share": row.pipe_share,
                "goal": asdict(goal_of(row.case)),
                "below_goal": report.missed(row) if "kafka" in machine else None,
            }
            for row in rows
        ],
    }
    keep(output, document)
