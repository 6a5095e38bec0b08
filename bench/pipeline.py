"""The source and the sink under Spark: `python -m bench pipeline read|write|lengths [--quick]`.

read       topics to Spark's `noop` sink: 100 B and 1 KB, without a codec, lz4 and zstd, with one task and
           with two at a time. With two, beside Spark's Kafka source by default and tuned for throughput.
write      rows that the JVM makes to a topic of three replicas, acks=all: exactly once and at least once, and
           Spark's Kafka sink, which is at least once, by default and tuned.
lengths    writes of small rows that take 1, 5, 30 and 120 seconds, beside Spark's Kafka sink, tuned: a part
           of each job does not grow with its rows.

Spark's Kafka connector is compared with where `make connector` could get it. All sides run in one session, so
the JVM is equally warm; they take turns, and the figure is the median of the rounds after one that does not
count. Spark's workers are this Python, by springtide-python where it is installed, or what PYSPARK_PYTHON
names. build/pipeline-bench.json keeps the last figures of each command.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import throughput
from bench.command import add_output, add_quick
from bench.machine import keep, machine_facts
from bench.spark_side import SparkSide, spark_side, tell
from tests.pipeline_proof.connector import NOT_AT_HAND, connector_version
from tests.pipeline_proof.part import Part, proving

OFFICIAL_RATIO_MIN = 1.0
WRITE_RATIO_MIN = 0.8
ROW = {"read": 2, "write": 4, "lengths": 4}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=sorted(ROW))
    add_quick(parser, "less data, fewer rounds: only to see that it runs")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help="rows whose names begin so: '1000 none' of read; 1000 of write; 30 of lengths",
    )
    add_output(parser, "pipeline-bench")


def run(options: argparse.Namespace) -> int:
    with proving(row=ROW[options.what], part=options.what) as part:
        version = connector_version()
        if version is None:
            part.not_compared(f"Spark's Kafka connector: {NOT_AT_HAND}")
        else:
            part.figures["Spark's Kafka connector"] = version
        with spark_side() as side:
            lines = RUNS[options.what](
                side, part, options.only, is_quick=options.quick, has_connector=version is not None
            )
    _keep(options.output, options.what, lines, is_quick=options.quick)
    return 0 if part.is_ok else 1


def _keep(path: Path, what: str, lines: Sequence[dict[str, Any]], *, is_quick: bool) -> None:
    kept = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    kept[what] = {"machine": machine_facts(), "quick": is_quick, "lines": lines}
    keep(path, kept)
    tell(f"figures are kept in {path}")


# --- the two ----------------------------------------------------------------------------------------------


def _read(
    side: SparkSide, part: Part, only: str, *, is_quick: bool, has_connector: bool
) -> list[dict[str, Any]]:
    lines = []
    print(throughput.READ_HEADINGS)
    for line in throughput.read(side, only, is_quick=is_quick, has_connector=has_connector):
        print(line, flush=True)
        lines.append(line._asdict())
        if line.side in (throughput.OURS, throughput.STREAM):
            name = f"{line.side}, {line.record_bytes} B {line.codec} {line.tasks} task(s)"
            part.figures[f"{name}, Mrec/s"] = round(line.rate, 3)
            part.figures[f"{name}, executor CPU s/GB"] = round(line.spark_s_per_gb, 2)
            continue
        is_judged = line.side == throughput.OFFICIAL and line.record_bytes >= throughput.LARGE_BYTES
        bar = f", at least {OFFICIAL_RATIO_MIN}" if is_judged else ""
        compared = f"{line.record_bytes} B {line.codec}, times {line.side}"
        part.figures[f"{compared}{bar}"] = round(line.ratio, 2)
        part.figures[f"{compared}, CPU"] = round(line.cpu_ratio, 2)
        if is_judged and line.ratio < OFFICIAL_RATIO_MIN:
            part.fail(f"{line.record_bytes} B {line.codec}: {line.ratio:.2f} of Spark's Kafka source")
    return lines


def _write(
    side: SparkSide, part: Part, only: str, *, is_quick: bool, has_connector: bool
) -> list[dict[str, Any]]:
    lines = []
    print(throughput.WRITE_HEADINGS)
    for line in throughput.write(side, only, is_quick=is_quick, has_connector=has_connector):
        print(line, flush=True)
        lines.append(line._asdict())
        if line.side == throughput.OURS:
            part.figures[f"{line.record_bytes} B, Mrec/s"] = round(line.rate, 3)
            continue
        is_judged = line.side != throughput.TUNED
        compared = f"{line.record_bytes} B, times {line.side}"
        part.figures[f"{compared}, at least {WRITE_RATIO_MIN}" if is_judged else compared] = round(
            line.ratio, 2
        )
        part.figures[f"{compared}, CPU"] = round(line.cpu_ratio, 2)
        if is_judged and line.ratio < WRITE_RATIO_MIN:
            part.fail(f"{line.record_bytes} B: {line.ratio:.2f} times {line.side}")
    return lines


def _lengths(
    side: SparkSide, part: Part, only: str, *, is_quick: bool, has_connector: bool
) -> list[dict[str, Any]]:
    lines = []
    print(throughput.LENGTH_HEADINGS)
    for line in throughput.lengths(side, only, is_quick=is_quick, has_connector=has_connector):
        print(f"{line.wall_s:4.1f} s  {line}", flush=True)
        lines.append(line._asdict())
        what = "Mrec/s" if line.side == throughput.OURS else f"times {line.side}"
        figure = line.rate if line.side == throughput.OURS else line.ratio
        part.figures[f"{line.records:,} rows, {what}"] = round(figure, 3)
    return lines


RUNS = {"read": _read, "write": _write, "lengths": _lengths}
