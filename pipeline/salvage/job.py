"""`pipeline salvage`: what its command line says, and the order in which things are done."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipeline.client.client import Client
from pipeline.client.compaction import compacted_topics
from pipeline.client.values import TopicPartition
from pipeline.clock import wall_ms
from pipeline.jobs.job import JobExit, JobOutcome
from pipeline.records.encode import BATCH_BYTES_LIMIT, BATCH_BYTES_MAX
from pipeline.salvage.copies import check_topics, topic_ids
from pipeline.salvage.merge_plan import MergePlan, fingerprint, make_plan
from pipeline.salvage.merge_state import Begun, MergeState, merge_state
from pipeline.salvage.reading import CopyReader
from pipeline.salvage.report import (
    MISSING,
    MissingRun,
    PartitionVerdicts,
    SalvageFindings,
    SalvageReport,
    lines,
    result,
)
from pipeline.salvage.survey import CopySurvey, ids_now, survey
from pipeline.sink.commit import check_stored
from pipeline.sink.target import propose_opening
from springtide.cli.call import UsageError

if TYPE_CHECKING:
    from pipeline.jobs.context import Context

MIN_AGE_SECONDS = 300.0
DESCRIPTION = """\
Finds the records that truncations cut off, says what became of each, and appends those that are missing.

When a topic prefers availability (unclean.leader.election.enable), a replica may be elected that lacks
records; others then cut theirs off, and so do replicas that were ahead of a new leader in any election.
Brokers keep a copy of all they cut off. Salvage reads the copies from every broker and compares them with
the log:

  present     the log has it: the same producer id, epoch and sequence, or else the same key, value, headers
              and timestamp, as often as the log has them
  repeated    several leaders lost the same record: it is counted where it was lost last
  superseded  in compacted topics, or with --latest-per-key: there is a later record of the key
  missing     none of these; COMMITTED: those of them that a replica knew to be committed

--merge appends what is missing behind the log's end, with its key, value, headers and timestamp, and a header
springtide.salvage that tells where it stood. It needs --checkpoint, a directory for the merge's plan: after a
crash, run it again with the same one. Each record is appended once; a second run finds them present.

Producers may still be sending what an election took: a partition is merged when the newest record that was
cut off is older than --min-age.
"""
EXAMPLES = (
    "pipeline salvage --bootstrap-server store1:9092",
    "pipeline salvage clicks --merge --checkpoint /var/lib/salvage --dry-run",
    "pipeline salvage clicks --merge --checkpoint /var/lib/salvage --committed-only",
    "pipeline salvage prices --latest-per-key --output json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="only these topics (all)")
    parser.add_argument(
        "--latest-per-key",
        action="store_true",
        help="the topics are tables, as compacted ones are: what has a later record of its key is superseded",
    )
    merge = parser.add_argument_group("merging")
    merge.add_argument("--merge", action="store_true", help="append what is missing")
    merge.add_argument(
        "--checkpoint", metavar="DIR", help="where the merge's plan is kept, on a mounted file system"
    )
    merge.add_argument("--dry-run", action="store_true", help="with --merge: say what it would append")
    merge.add_argument(
        "--committed-only",
        action="store_true",
        help="only what a replica knew to be committed. Others may have been acknowledged too, with acks=1, "
        "or by a leader whose word did not reach its followers",
    )
    merge.add_argument(
        "--min-age",
        type=_seconds,
        default=MIN_AGE_SECONDS,
        metavar="SECONDS",
        help="longer than producers retry (%(default)s)",
    )
    merge.add_argument(
        "--accept-trimmed",
        action="store_true",
        help="merge although retention or compaction has removed some of what was appended since the cut, "
        "and with it perhaps the same records, or the deletion of their keys",
    )
    merge.add_argument(
        "--batch-bytes",
        type=_batch_bytes,
        default=BATCH_BYTES_MAX,
        metavar="N",
        help="largest batch; not above the topics' max.message.bytes (%(default)s)",
    )


def run(options: argparse.Namespace, context: Context) -> JobOutcome:
    if options.merge and not options.checkpoint:
        raise UsageError("--merge needs --checkpoint DIR")
    if (options.checkpoint or options.dry_run) and not options.merge:
        raise UsageError("--checkpoint and --dry-run are for --merge")
    config = context.client_config
    state = merge_state(options.checkpoint) if options.checkpoint else None
    resumed = 0
    with Client(config) as client:
        begun = None if state is None else state.unfinished()
        if state is not None and begun is not None:
            context.note(
                f"{begun.plan.records} records were being merged by the plan in {options.checkpoint}"
            )
            if not options.dry_run:
                resumed = _carry_out(context, client, state, begun)
        found = survey(client, CopyReader(config), topics=options.topics or None, progress=context.progress)
        findings = _compare(options, context, client, found)
        report = SalvageReport(
            found.copies, findings, found.orphans, found.unasked, found.unreadable, resumed=resumed
        )
        if state is not None:
            report = _merge(options, context, client, state, report)
    return JobOutcome(JobExit.DONE if report.is_whole else JobExit.FOUND, result(report), lines(report))


def _compare(
    options: argparse.Namespace, context: Context, client: Client, found: CopySurvey
) -> SalvageFindings:
    if not found.copies:
        return SalvageFindings()
    from pipeline.salvage.findings import check_unchanged, compare  # noqa: PLC0415 - only this needs PySpark

    context.progress(0, 0, f"comparing {len(found.copies)} copies of {len(found.targets)} partitions")
    keyed = {target.where.topic for target in found.targets}
    if not options.latest_per_key:
        keyed = set(compacted_topics(sorted(keyed), client) or ())
    findings = compare(context.spark, context.client_config, found, keyed_topics=keyed)
    check_unchanged(client, found.logs, topic_ids(found.copies))
    return findings


def _merge(
    options: argparse.Namespace, context: Context, client: Client, state: MergeState, report: SalvageReport
) -> SalvageReport:
    now_ms = wall_ms()
    left = {
        one.where: reason
        for one in report.findings.targets
        if (reason := why_not(options, one, now_ms=now_ms))
    }
    runs = [
        one
        for one in report.findings.missing
        if one.where not in left and (one.is_committed or not options.committed_only)
    ]
    merged: dict[TopicPartition, int] = {}
    for one in runs:
        merged[one.where] = merged.get(one.where, 0) + one.run.records
    if options.dry_run:
        return report._replace(left=left, would_merge=sum(merged.values()))
    if runs:
        begun = state.begin(_plan(options, client, runs))
        _carry_out(context, client, state, begun)
    return report._replace(left=left, merged=merged)


def why_not(options: argparse.Namespace, one: PartitionVerdicts, *, now_ms: int) -> str:
    """Return why a partition with missing records is not merged now; "" if it is."""
    if not one.counts.get(MISSING):
        return ""
    if one.trimmed_to is not None and not options.accept_trimmed:
        return (
            f"its log begins at offset {one.trimmed_to} by now, behind the cut: what was there before can't "
            "be compared; see --accept-trimmed"
        )
    if one.deleted_to is not None and not options.accept_trimmed:
        return (
            f"tombstones below offset {one.deleted_to} are compacted away, and some may have come after the "
            "cut: a key that is missing may have been deleted since; see --accept-trimmed"
        )
    if one.newest_ms < 0 and options.min_age > 0:
        return "brokers stamp its records, so their age is not known; see --min-age"
    age_seconds = (now_ms - one.newest_ms) / 1000
    if age_seconds < options.min_age:
        return (
            f"the newest record that was cut off is {max(age_seconds, 0):.0f} s old, and its producer may "
            "still be sending it: run again later, or see --min-age"
        )
    return ""


def _plan(options: argparse.Namespace, client: Client, runs: list[MissingRun]) -> MergePlan:
    common = fingerprint(options.batch_bytes)
    openings = [
        propose_opening(client, topic, batch_id=0, fingerprint=common)
        for topic in sorted({one.where.topic for one in runs})
    ]
    return make_plan(((one.where, one.run) for one in runs), openings, batch_bytes=options.batch_bytes)


def _carry_out(context: Context, client: Client, state: MergeState, begun: Begun) -> int:
    from pipeline.jobs.spark_tasks import run_tasks  # noqa: PLC0415 - only this needs PySpark
    from pipeline.salvage.spark_tasks import MergeTask, merge  # noqa: PLC0415

    plan = begun.plan
    common = fingerprint(plan.batch_bytes)
    for opening in plan.openings.values():
        opening.check(common)
    check_topics(
        {topic: opening.topic_id for topic, opening in plan.openings.items() if opening.topic_id},
        ids_now(client, plan.openings),
    )
    context.progress(0, 0, f"appending {plan.records} records to {len(plan.targets)} partitions")
    reports = run_tasks(
        context.spark,
        merge,
        [
            MergeTask(
                context.client_config,
                number,
                plan.sink_id,
                target,
                plan.openings[target.where.topic],
                plan.batch_bytes,
            )
            for number, target in enumerate(plan.targets)
        ],
    )
    check_stored(client, reports)
    state.finish(begun)
    return plan.records


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text!r}")
    return value


def _batch_bytes(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if not 1_000 <= value <= BATCH_BYTES_LIMIT:
        raise argparse.ArgumentTypeError(f"must be within 1000 and {BATCH_BYTES_LIMIT}, not {text!r}")
    return value
