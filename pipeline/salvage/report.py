"""The report of a salvage: a line for each partition, then what needs attention. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.salvage.copies import Copy, Orphan
from pipeline.salvage.merge_plan import RecordRun
from springtide.cli.tables import Column, Table, columns

PRESENT: Final = "present"
SUPERSEDED: Final = "superseded"
UNCOMMITTED: Final = "uncommitted"
REPEATED: Final = "repeated"
MISSING: Final = "missing"

RUNS_SHOWN: Final = 20
RUNS_TOLD: Final = 10_000
"""Runs that `--output json` holds; there may be a million."""
VERDICTS: Final = (PRESENT, REPEATED, SUPERSEDED, UNCOMMITTED, MISSING)


class PartitionVerdicts(NamedTuple):
    """One partition. `counts`: records that were cut off, by verdict. `missing_committed`: missing records
    that a replica knew to be committed. `newest_ms`: the latest timestamp that was cut off, or -1.
    `trimmed_to`: where the log begins, if that is after the cut: earlier records can't be compared.
    `deleted_to`: where a compacted log's tombstones begin, if that is after the cut: keys may have been
    deleted since, and nothing tells."""

    where: TopicPartition
    counts: Mapping[str, int]
    missing_committed: int
    newest_ms: int
    trimmed_to: int | None
    deleted_to: int | None = None


class MissingRun(NamedTuple):
    where: TopicPartition
    run: RecordRun
    is_committed: bool


class SalvageFindings(NamedTuple):
    """`missing` by partition, in the order in which leaders had appended it."""

    targets: tuple[PartitionVerdicts, ...] = ()
    missing: tuple[MissingRun, ...] = ()


class SalvageReport(NamedTuple):
    """The result of a run. `merged`: records that it appended, by partition; None unless it was asked to.
    `left`: why partitions were not merged. `resumed`: records of an interrupted merge that it finished."""

    copies: tuple[Copy, ...]
    findings: SalvageFindings
    orphans: tuple[Orphan, ...] = ()
    unasked: Mapping[int, str] = {}
    unreadable: tuple[tuple[Copy, str], ...] = ()
    merged: Mapping[TopicPartition, int] | None = None
    left: Mapping[TopicPartition, str] = {}
    resumed: int = 0
    would_merge: int | None = None

    @property
    def missing(self) -> int:
        """Records that are still missing after this run."""
        found = sum(one.counts.get(MISSING, 0) for one in self.findings.targets)
        return found - sum((self.merged or {}).values())

    @property
    def is_whole(self) -> bool:
        """Return whether all copies were compared and nothing is missing after this run."""
        return not (self.missing or self.unasked or self.unreadable)


def result(report: SalvageReport) -> dict[str, Any]:
    """Return the report as `--output json` prints it."""
    findings = report.findings
    return {
        "missing": report.missing,
        "merged": sum((report.merged or {}).values()),
        "resumed": report.resumed,
        "wouldMerge": report.would_merge,
        "partitions": [_row(report, one) for one in findings.targets],
        "runs": [_run(one) for one in findings.missing[:RUNS_TOLD]],
        "runsLeftOut": max(len(findings.missing) - RUNS_TOLD, 0),
        "copies": [
            {
                "broker": copy.broker_id,
                "name": copy.name,
                "topic": copy.where.topic,
                "partition": copy.where.partition,
                "firstOffset": copy.first_offset,
                "lastOffset": copy.next_offset - 1,
                "highWatermark": copy.high_watermark,
                "bytes": copy.size_bytes,
            }
            for copy in report.copies
        ],
        "unreadable": [
            {"broker": copy.broker_id, "name": copy.name, "reason": reason}
            for copy, reason in report.unreadable
        ],
        "unasked": [{"broker": broker_id, "reason": reason} for broker_id, reason in report.unasked.items()],
        "ofDeletedTopics": [{"broker": one.broker_id, "name": one.name} for one in report.orphans],
    }


def lines(report: SalvageReport) -> tuple[str, ...]:
    """Return the report as lines of text for people."""
    if not report.copies and not report.unreadable:
        told = ["Brokers have no copies: nothing was cut off, or the copies were removed."]
        return (*told, *_attention(report))
    table = Table(_columns(report.findings))
    rows = [_row(report, one) for one in report.findings.targets]
    told = list(table.lines(rows)) if rows else []
    runs = report.findings.missing
    if runs and report.merged is None:
        told += ["", "Missing:", *(_run_line(one) for one in runs[:RUNS_SHOWN])]
        if len(runs) > RUNS_SHOWN:
            told.append(f"  ... and {len(runs) - RUNS_SHOWN} more places (--output json has them)")
    if report.resumed:
        told += ["", f"The merge that was begun before is finished now: {report.resumed} records."]
    if report.would_merge is not None:
        told += ["", f"Would append {report.would_merge} records; nothing was written."]
    elif report.merged is not None:
        told += ["", f"Appended {sum(report.merged.values())} records."]
    elif report.missing:
        told += ["", "pipeline salvage --merge --checkpoint DIR appends what is missing."]
    return (*told, *_attention(report))


def _columns(findings: SalvageFindings) -> tuple[Column, ...]:
    """Return the columns of the table; transactions have one where there are some."""
    has_some = any(one.counts.get(UNCOMMITTED) for one in findings.targets)
    verdicts = " ".join(f"#{verdict}" for verdict in VERDICTS if verdict != UNCOMMITTED or has_some)
    return (
        *columns("partition #copies"),
        Column("CUT OFF", "cutOff", is_number=True),
        *columns(f"{verdicts} #committed=missingCommitted #merged"),
    )


def _attention(report: SalvageReport) -> Iterable[str]:
    for where, reason in report.left.items():
        yield f"{where} is not merged: {reason}"
    for copy, reason in report.unreadable:
        yield f"not compared: {copy}: {reason}"
    for broker_id, reason in report.unasked.items():
        yield f"broker {broker_id} could not report what it has cut off: {reason}"
    if report.orphans:
        yield f"{len(report.orphans)} copies are of topics that were deleted."


def _row(report: SalvageReport, one: PartitionVerdicts) -> dict[str, Any]:
    counts = one.counts
    return {
        "partition": str(one.where),
        "copies": sum(copy.where == one.where for copy in report.copies),
        "cutOff": sum(counts.values()),
        **{
            verdict: counts.get(verdict, 0)
            for verdict in (PRESENT, REPEATED, SUPERSEDED, UNCOMMITTED, MISSING)
        },
        "missingCommitted": one.missing_committed,
        "merged": None if report.merged is None else report.merged.get(one.where, 0),
        "newestMs": one.newest_ms,
        "trimmedTo": one.trimmed_to,
        "deletedTo": one.deleted_to,
    }


def _run(one: MissingRun) -> dict[str, Any]:
    return {
        "topic": one.where.topic,
        "partition": one.where.partition,
        "broker": one.run.broker_id,
        "copy": one.run.name,
        "leaderEpoch": one.run.leader_epoch,
        "firstOffset": one.run.first_offset,
        "lastOffset": one.run.last_offset,
        "committed": one.is_committed,
    }


def _run_line(one: MissingRun) -> str:
    run = one.run
    committed = "committed" if one.is_committed else "not known to be committed"
    return (
        f"  {one.where} offsets {run.first_offset} to {run.last_offset} of leader epoch {run.leader_epoch}, "
        f"in broker {run.broker_id}'s copy; {committed}"
    )
