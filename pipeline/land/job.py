"""`pipeline land`: what its command line says, and how it reports."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pipeline.client.client import Client
from pipeline.client.offset_words import offsets_between
from pipeline.clock import wall_ms
from pipeline.jobs.arguments import add_engine, positive, shown_spans, source_options
from pipeline.jobs.job import JobExit, JobOutcome
from pipeline.jobs.sizes import log_bytes
from pipeline.land.cluster import LandCluster
from pipeline.land.delta import catch_up, check_delta
from pipeline.land.documents import COMPRESSIONS, LandPlan, TableSettings
from pipeline.land.lander import LandedBatch, Lander, LandTotals
from pipeline.land.latest import compact
from pipeline.land.layout import PARTITION_BY_DEFAULT, parse_partition_by
from pipeline.land.planning import PlanSettings
from pipeline.land.table import LandTable, table_root
from pipeline.land.task import LandReport, land_ranges, task_settings
from pipeline.source.options import SourceOptions
from springtide.cli.call import UsageError

if TYPE_CHECKING:
    from pipeline.jobs.context import Context

RECORDS_PER_TASK = 1_000_000
RECORDS_PER_BATCH = 50_000_000
ZSTD_LEVEL = 3
EVERY_SECONDS = 60.0
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|m|h)?\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

DESCRIPTION = """\
Lands topics as Parquet files, each record once, however often it is killed and run again.

DEST is a path that all of Spark's hosts share. It becomes a table: data files in folders by topic, date and
hour, and _springtide/ with a plan and a manifest for each batch. There is no checkpoint beside it: the next
run goes on where the last manifest ended, so --starting-* counts only for topics that the table does not have
yet.

Without --continuous it ends when what was there at its start is landed. Workers write the files; rows don't
pass through Spark's JVM. Read the table with `pipeline.land.reading.read(spark, DEST)`, with
`pipeline.land.reading.dataset(DEST)`, or with anything that reads Parquet folders.
"""
EXAMPLES = (
    "pipeline land orders /lake --bootstrap-server store1:9092",
    "pipeline land orders payments /lake --continuous --every 5m",
    'pipeline land --pattern "orders.*" /lake --starting-timestamp 1795305600000 --dry-run',
    "pipeline land orders /lake --compact --delta --bootstrap-server store1:9092",
    'pipeline land orders /lake/sample --ending-offsets \'{"orders":{"0":1000,"1":1000}}\' --output json',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="topics to land")
    parser.add_argument("dest", metavar="DEST", help="the table: a path on a mounted file system")
    parser.add_argument("--pattern", metavar="REGEX", help="topics by name, instead of naming them")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--available-now", action="store_true", help="land what is there now, then end (the default)"
    )
    mode.add_argument(
        "--continuous", action="store_true", help="continue as records arrive, until interrupted"
    )
    parser.add_argument(
        "--every",
        type=_seconds,
        default=EVERY_SECONDS,
        metavar="TIME",
        help="with --continuous: 500ms, 30s, 5m or 1h from one batch's begin to the next's (1m)",
    )
    span = parser.add_argument_group("a range")
    span.add_argument("--starting-offsets", metavar="JSON", help='earliest, latest or {"orders":{"0":42}}')
    span.add_argument("--starting-timestamp", metavar="MS", help="begin at the first record at or after it")
    span.add_argument("--ending-offsets", metavar="JSON", help="latest, or offsets by partition, exclusive")
    span.add_argument("--ending-timestamp", metavar="MS", help="end before the first record at or after it")
    span.add_argument("--read-committed", action="store_true", help="without records of aborted transactions")
    span.add_argument(
        "--allow-loss",
        action="store_true",
        help="pass over records that are gone from the log, and note it in the manifest",
    )
    files = parser.add_argument_group("files")
    files.add_argument(
        "--partition-by",
        default=",".join(PARTITION_BY_DEFAULT),
        metavar="COLUMNS",
        help="folders, of topic, partition, date, hour; fixed by the first run (%(default)s)",
    )
    files.add_argument("--compression", choices=COMPRESSIONS, default="zstd", help="(%(default)s)")
    files.add_argument(
        "--compression-level", type=int, metavar="N", help=f"of zstd ({ZSTD_LEVEL}) or gzip (its own)"
    )
    files.add_argument(
        "--records-per-task",
        type=positive,
        default=RECORDS_PER_TASK,
        metavar="N",
        help="most offsets of a partition that one task reads into one file a folder (%(default)s)",
    )
    files.add_argument(
        "--records-per-batch",
        type=positive,
        default=RECORDS_PER_BATCH,
        metavar="N",
        help="about how many offsets one manifest covers (%(default)s)",
    )
    parser.add_argument(
        "--delta", action="store_true", help="keep a Delta log over the files, too (needs deltalake)"
    )
    parser.add_argument(
        "--compact",
        action="store_true",
        help="then bring the view of each key's latest record up to date (read it with read_latest)",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be landed; write nothing")
    add_engine(parser)


def run(options: argparse.Namespace, context: Context) -> JobOutcome:
    partition_by = parse_partition_by(options.partition_by)
    if options.delta:
        check_delta()
    source = _source_options(options, context)
    table = LandTable(table_root(options.dest))
    with Client(context.client_config) as client:
        cluster = LandCluster(source, client, is_endless=options.continuous)
        wanted = TableSettings(cluster.cluster_id(), partition_by)

        def land_tasks(plan: LandPlan) -> Sequence[LandReport]:
            how = task_settings(
                plan, wanted, root=table.root, client=context.client_config, allow_loss=options.allow_loss
            )
            reports = context.run_tasks(
                partial(land_ranges, how),
                plan.tasks,
                size=lambda: log_bytes(client, chain.from_iterable(plan.tasks)),
            )
            return list(chain.from_iterable(reports))

        def lander(parallelism: int) -> Lander:
            return Lander(table, cluster, land_tasks, _plan_settings(options, parallelism), wall_ms)

        if options.dry_run:
            table.check(wanted)
            return _dry_run(lander(1), str(table.root))
        if table.settings() is None:
            cluster.check_topics()  # a misspelt name must not leave an empty table behind
        table.open(wanted)
        return _land(lander(context.parallelism or 1), table, options, context)


def _land(lander: Lander, table: LandTable, options: argparse.Namespace, context: Context) -> JobOutcome:
    totals = LandTotals()
    while True:
        begun = time.monotonic()
        landed = lander.land_next()
        if landed is not None:
            totals.add(landed.manifest)
            _tell(landed, totals, context)
        if options.delta:
            catch_up(table)
        if landed is not None and landed.is_more_due:
            continue
        if not options.continuous:
            break
        pause(max(0.0, options.every - (time.monotonic() - begun)))
    if options.compact:
        compact(context.spark, table)
    told = {"destination": str(table.root), **asdict(totals)}
    lines = [
        f"{totals.records:,} records landed in {totals.files:,} files ({totals.bytes:,} bytes), "
        f"{totals.batches} batches: {table.root}"
    ]
    lines += [f"lost: {loss}" for loss in totals.losses]
    if totals.skipped:
        lines.append(f"lost: {totals.skipped:,} offsets that were gone when they were to be read")
    return JobOutcome(JobExit.DONE, told, tuple(lines))


def pause(seconds: float) -> None:
    """Between two batches of a stream."""
    time.sleep(seconds)


def _tell(landed: LandedBatch, totals: LandTotals, context: Context) -> None:
    manifest = landed.manifest
    records = sum(span.records for span in manifest.spans)
    again = ", begun by an earlier run" if landed.was_resumed else ""
    context.note(
        f"batch {manifest.batch}{again}: {records:,} records in {len(manifest.files):,} files; "
        f"{totals.records:,} records so far"
    )


def _dry_run(lander: Lander, destination: str) -> JobOutcome:
    begun = lander.look()
    plan, is_more_due = (begun, True) if begun is not None else lander.next_plan()
    spans = () if plan is None else plan.spans
    tasks = () if plan is None else plan.tasks
    records = sum(span.end_offset - span.start_offset for span in spans)
    told: Mapping[str, Any] = {
        "destination": destination,
        "dryRun": True,
        "isBegun": begun is not None,
        "isMoreDue": is_more_due,
        "offsets": records,
        "tasks": len(tasks),
        "spans": shown_spans((span.where, span.start_offset, span.end_offset) for span in spans),
        "losses": [] if plan is None else list(plan.losses),
    }
    if plan is None:
        return JobOutcome(JobExit.DONE, told, (f"nothing to land: {destination} has it all",))
    lines = [
        f"{span.topic}-{span.partition}  {offsets_between(span.start_offset, span.end_offset)}"
        for span in spans
    ]
    how = "would be finished" if begun is not None else "would be landed"
    lines.append(
        f"batch {plan.batch} {how}: {records:,} offsets of {len(spans)} partitions by {len(tasks)} tasks"
        + (", and others after it" if is_more_due else "")
    )
    return JobOutcome(JobExit.DONE, told, tuple(lines))


def _source_options(options: argparse.Namespace, context: Context) -> SourceOptions:
    if bool(options.topics) == (options.pattern is not None):
        raise UsageError("name the topics to land, or give --pattern; one of the two")
    if options.continuous and (options.ending_offsets or options.ending_timestamp):
        raise UsageError("--continuous has no end: leave --ending-* away")
    if options.continuous and options.compact:
        raise UsageError("--compact is for runs that end: schedule it beside a --continuous one")
    return source_options(
        options,
        context,
        subscribePattern=options.pattern,
        endingTimestamp=options.ending_timestamp,
        failOnDataLoss="false" if options.allow_loss else None,
        **{"kafka.isolation.level": "read_committed" if options.read_committed else None},
    )


def _plan_settings(options: argparse.Namespace, parallelism: int) -> PlanSettings:
    level = options.compression_level
    if level is None and options.compression == "zstd":
        level = ZSTD_LEVEL
    return PlanSettings(
        options.records_per_task,
        options.records_per_batch,
        parallelism,
        options.compression,
        level,
        options.read_committed,
        options.allow_loss,
    )


def _seconds(text: str) -> float:
    found = _TIME.match(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"must be a time like 500ms, 30s, 5m or 1h: {text!r}")
    return float(found[1]) * _SECONDS[found[2] or "s"]
