"""`pipeline verify`: what its command line says, and how it reports."""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pipeline.client.client import Client
from pipeline.client.compaction import compacted_topics
from pipeline.client.offset_words import offsets_between
from pipeline.client.values import ClusterMetadata, PartitionRange, TopicPartition
from pipeline.clock import wall_ms
from pipeline.jobs.arguments import add_engine, positive, shown_spans, source_options
from pipeline.jobs.job import JobExit, JobOutcome
from pipeline.jobs.sizes import log_bytes
from pipeline.source.options import SourceOptions
from pipeline.verify.audit_reading import read_audit
from pipeline.verify.audited import Audited, compare_epochs
from pipeline.verify.cluster import VerifyTarget, changed_topics, find_target, unverified
from pipeline.verify.joining import Verified, join, with_more, without
from pipeline.verify.landed import LandedCounts, compare_landed
from pipeline.verify.landed_table import landed_ranges
from pipeline.verify.outcome import ReadingCost, lines_of, result_of
from pipeline.verify.planning import RangeTask, offsets_of, plan_verification
from pipeline.verify.reader import ReadOptions, verify_ranges
from pipeline.verify.recording import record
from pipeline.verify.sequences import EXPIRY_MS_DEFAULT
from springtide.cli.call import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.jobs.context import Context

PATIENCE_S = 15.0
FETCH_BYTES = 4 * 1024 * 1024
SLOTS_UNKNOWN = 8
"""Assumed number of tasks at a time under Spark Connect, whose client is not told the real one."""

DESCRIPTION = """\
Reads each partition from all of its replicas at once and compares them, byte by byte, up to what is
committed: each replica as its broker serves it, in sync or not. Checks on the way that stored CRCs are those
of the bytes, that offsets have no gap and do not go back, that leader epochs never do, that no idempotent
producer's record is missing or there twice, and that each replica's index of aborted transactions says what
the log holds. Compacted topics have gaps: there replicas are compared that have
applied the same rounds of compaction, and the others are named. --landed also counts what was landed against
the log, and --audit holds the log's leader epochs against the elections that the controller's audit knows.

It only reads, does not change the ISR, and may run beside any load: records that are written meanwhile are
not read. One task takes a range from all replicas; only findings leave it.

Ends with status 1 if anything is wrong. --record keeps the result in the controller's SQL, where
`springtide verifications list` shows it.
"""
EXAMPLES = (
    "pipeline verify orders --bootstrap-server store1:9092",
    "pipeline verify --master spark://spark1:7077 --output json",
    "pipeline verify orders --starting-timestamp 1795305600000 --landed /lake",
    "pipeline verify --record --audit --cluster prod --url http://controller1:8080",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="topics to verify; all without any")
    parser.add_argument("--pattern", metavar="REGEX", help="topics by name, instead of naming them")
    span = parser.add_argument_group("a range")
    span.add_argument("--starting-offsets", metavar="JSON", help='earliest or {"orders":{"0":42}}')
    span.add_argument("--starting-timestamp", metavar="MS", help="begin at the first record at or after it")
    span.add_argument("--ending-offsets", metavar="JSON", help="latest, or offsets by partition, exclusive")
    also = parser.add_argument_group("also")
    also.add_argument("--landed", metavar="DEST", help="count a table that `pipeline land` made, too")
    also.add_argument("--audit", action="store_true", help="hold leader epochs against the audit, too")
    also.add_argument("--record", action="store_true", help="keep the result in the controller's SQL")
    also.add_argument("--reason", metavar="TEXT", help="with --record: why it was run")
    parser.add_argument(
        "--patience",
        type=_seconds,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long a replica may be silent, or stand still behind what is committed (%(default)s)",
    )
    parser.add_argument(
        "--producer-expiry",
        type=_hours_ms,
        default=EXPIRY_MS_DEFAULT,
        metavar="HOURS",
        help="a producer that was idle for longer may continue anywhere: producer.id.expiration.ms (24)",
    )
    parser.add_argument(
        "--records-per-task", type=positive, metavar="N", help="most offsets of a partition a task reads"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be read; read nothing")
    add_engine(parser)


def run(options: argparse.Namespace, context: Context) -> JobOutcome:
    began_ms = wall_ms()
    if options.record and options.dry_run:
        raise UsageError("--record keeps a result, and --dry-run has none")
    with Client(context.client_config) as client:
        target = find_target(_source_options(options, context), client)
        topics = sorted({where.topic for where in target.bounds})
        compacted = compacted_topics(topics, client)
        if compacted is None:
            context.note("no broker reports which topics are compacted: all are verified as not compacted")
        landed = None if options.landed is None else landed_ranges(options.landed, target.metadata)
        tasks = plan_verification(
            target.bounds,
            target.metadata,
            slots=1 if options.dry_run else (context.parallelism or SLOTS_UNKNOWN),
            compacted=compacted or frozenset(),
            records_per_task=options.records_per_task,
        )
        if options.dry_run:
            return _dry_run(target, tasks)
        read = ReadOptions(
            client=context.client_config,
            fetch_bytes=FETCH_BYTES,
            patience_ms=int(options.patience * 1000),
            expiry_ms=options.producer_expiry,
            keeps_held=landed is not None,
        )
        verified, measured = _read(read, tasks, context, client)
        after = client.metadata(topics)
        verified = without(verified, changed_topics(target.metadata, after))
    verified = with_more(verified, unverified(target))
    audited: Audited | None = None
    if options.audit:
        with context.controllers() as controllers:
            changes = read_audit(controllers, context.cluster, topics, target.metadata)
        audited = compare_epochs(verified.partitions, changes, _leader_epochs(after))
        verified = with_more(verified, audited.findings)
    counts: LandedCounts | None = None
    if landed is not None:
        counts = compare_landed(verified.partitions, landed)
        verified = with_more(verified, counts.findings)
    result = result_of(
        verified,
        measured,
        counts,
        audited,
        topics=topics,
        compacted=compacted or frozenset(),
        began_ms=began_ms,
        ended_ms=wall_ms(),
    )
    lines = lines_of(result)
    if options.record:
        result["recorded"] = record(result, context, reason=options.reason)
        lines.append(f"recorded as {result['recorded']}")
    status = JobExit.FOUND if result["findingsTotal"] else JobExit.DONE
    return JobOutcome(status, result, tuple(lines))


def _read(
    read: ReadOptions,
    tasks: Sequence[tuple[RangeTask, ...]],
    context: Context,
    client: Client,
) -> tuple[Verified, ReadingCost]:
    began_s = time.monotonic()
    read_from_each = [PartitionRange(*one[:4]) for task in tasks for one in task for _ in one.replicas]
    by_task = context.run_tasks(
        partial(verify_ranges, read), tasks, size=lambda: log_bytes(client, read_from_each)
    )
    reports = list(chain.from_iterable(by_task))
    measured = ReadingCost(
        seconds=time.monotonic() - began_s, cpu_s=sum(one.cpu_ms for one in reports) / 1000, tasks=len(tasks)
    )
    return join(reports, expiry_ms=read.expiry_ms), measured


def _leader_epochs(metadata: ClusterMetadata) -> dict[TopicPartition, int]:
    return {
        TopicPartition(name, number): one.leader_epoch
        for name, topic in metadata.topics.items()
        for number, one in topic.partitions.items()
    }


def _dry_run(target: VerifyTarget, tasks: Sequence[tuple[RangeTask, ...]]) -> JobOutcome:
    spans = sorted(target.bounds.items())
    told: Mapping[str, Any] = {
        "dryRun": True,
        "tasks": len(tasks),
        "offsets": offsets_of(tasks),
        "spans": shown_spans((where, one.start_offset, one.end_offset) for where, one in spans),
        "leaderless": [str(where) for where in target.leaderless],
    }
    lines = [f"{where}  {offsets_between(one.start_offset, one.end_offset)}" for where, one in spans]
    lines += [f"{where}  has no leader" for where in target.leaderless]
    lines.append(
        f"{offsets_of(tasks):,} offsets of {len(spans)} partitions would be read by {len(tasks)} tasks"
    )
    return JobOutcome(JobExit.DONE, told, tuple(lines))


def _source_options(options: argparse.Namespace, context: Context) -> SourceOptions:
    if options.topics and options.pattern is not None:
        raise UsageError("name the topics to verify, or give --pattern; not both")
    return source_options(
        options,
        context,
        subscribePattern=None if options.topics else options.pattern or ".*",
        startingOffsetsByTimestampStrategy="latest",
        failOnDataLoss="false",  # what retention removes meanwhile is no damage
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError("must be from 0 to 86400 seconds")
    return value


def _hours_ms(text: str) -> int:
    value = float(text)
    if not 0 < value <= 1_000_000:
        raise argparse.ArgumentTypeError("must be a number of hours")
    return int(value * 3_600_000)
