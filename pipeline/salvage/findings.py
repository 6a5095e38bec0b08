"""Compares what was cut off with the logs, on Spark, and says what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.values import PartitionRange, TopicPartition
from pipeline.errors import LogCutAgain, PlanInvalid
from pipeline.jobs.spark_tasks import task_rows
from pipeline.salvage.copies import Copy, CutPartition, check_topics, copy_tasks, live_range, topic_ids
from pipeline.salvage.identity import NO_TIMESTAMP, TimeWindow, TransactionPart
from pipeline.salvage.merge_plan import RUNS_MAX, RecordRun
from pipeline.salvage.report import MISSING, MissingRun, PartitionVerdicts, SalvageFindings
from pipeline.salvage.spark_tasks import IDENTITIES, CutTask, LivePiece, LogTask, cut_rows, log_rows
from pipeline.salvage.survey import CopySurvey, LogBounds, ids_now
from pipeline.salvage.verdicts import hits_of, latest_keys_of, runs_of, verdicts
from pipeline.source.planning import PlanOptions, plan_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

RECORDS_PER_TASK = 500_000
RECORDS_TOGETHER = 100_000


def compare(
    spark: SparkSession, config: ClientConfig, found: CopySurvey, *, keyed_topics: Collection[str]
) -> SalvageFindings:
    """Compare the copies with the logs. `keyed_topics`: those that are read as tables. Raises LogCutAgain,
    PlanInvalid, ClientError, and what Spark raises where a task failed for good."""
    keyed = frozenset(
        number for number, target in enumerate(found.targets) if target.where.topic in keyed_topics
    )
    cut_tasks = [CutTask(config, tuple(pieces), keyed) for pieces in copy_tasks(found.copies, found.targets)]
    cut = task_rows(spark, cut_rows, cut_tasks, IDENTITIES).persist()
    try:
        times = _times(cut)
        windows = {target: time.window for target, time in times.items()}
        live = task_rows(spark, log_rows, _log_tasks(config, found, keyed, windows), IDENTITIES)
        hits = hits_of(cut, live).persist()
        try:
            judged = verdicts(cut, hits, latest_keys_of(live) if keyed else None).persist()
            try:
                return _findings(judged, found, times, keyed)
            finally:
                judged.unpersist()
        finally:
            hits.unpersist()
    finally:
        cut.unpersist()


def check_unchanged(client: Client, logs: Mapping[TopicPartition, LogBounds], ids: Mapping[str, str]) -> None:
    """Raise LogCutAgain if a log was cut below what was compared, or its topic, by name and id, was made
    again; ClientError. Ids are never used again, so the topic was the same all the time."""
    check_topics(ids, ids_now(client, ids))
    compared = {where: bounds for where, bounds in logs.items() if bounds.end_offset > 0}
    ends = client.epoch_ends({where: bounds.leader_epoch for where, bounds in compared.items()})
    for where, bounds in compared.items():
        if ends[where].leader_epoch < 0 or ends[where].end_offset < bounds.end_offset:
            raise LogCutAgain(
                f"{where} was cut again while it was compared, to offset {ends[where].end_offset}",
                "Run it again.",
            )


class _Times(NamedTuple):
    newest_ms: int
    window: TimeWindow | None
    """None where brokers stamp timestamps: any record may be the same one then."""


def _times(cut: DataFrame) -> dict[int, _Times]:
    rows = (
        cut.where(sf.col("transaction") <= TransactionPart.RECORD)
        .groupBy("target")
        .agg(
            sf.min("timestamp").alias("first"),
            sf.max("timestamp").alias("last"),
            sf.max(sf.col("timestamp") == NO_TIMESTAMP).alias("has_none"),
        )
        .collect()
    )
    return {
        row["target"]: _Times(row["last"], None if row["has_none"] else TimeWindow(row["first"], row["last"]))
        for row in rows
    }


def _log_tasks(
    config: ClientConfig, found: CopySurvey, keyed: Collection[int], windows: Mapping[int, TimeWindow | None]
) -> list[LogTask]:
    number_of = {target.where: number for number, target in enumerate(found.targets)}
    ranges = []
    for target in found.targets:
        bounds = found.logs[target.where]
        one = live_range(target, log_start_offset=bounds.start_offset, end_offset=bounds.end_offset)
        if one is not None and number_of[target.where] in windows:
            ranges.append(one)

    def piece(one: PartitionRange) -> LivePiece:
        number = number_of[one.where]
        is_keyed = number in keyed
        return LivePiece(number, one, is_keyed, None if is_keyed else windows[number])

    options = PlanOptions(max_records_per_partition=RECORDS_PER_TASK, coalesce_records=RECORDS_TOGETHER)
    ids = topic_ids(found.copies)
    return [LogTask(config, tuple(map(piece, task)), ids) for task in plan_tasks(ranges, options)]


def _findings(
    judged: DataFrame, found: CopySurvey, times: Mapping[int, _Times], keyed: Collection[int]
) -> SalvageFindings:
    counts: dict[int, Counter[str]] = {}
    committed: Counter[int] = Counter()
    for row in judged.groupBy("target", "verdict", "is_committed").count().collect():
        counts.setdefault(row["target"], Counter())[row["verdict"]] += row["count"]
        if row["verdict"] == MISSING and row["is_committed"]:
            committed[row["target"]] += row["count"]
    rows = runs_of(judged).limit(RUNS_MAX + 1).collect()
    if len(rows) > RUNS_MAX:
        raise PlanInvalid(f"what is missing stands in more than {RUNS_MAX} places: salvage fewer topics")
    targets = tuple(
        PartitionVerdicts(
            target.where,
            dict(counts.get(number, {})),
            committed[number],
            times[number].newest_ms if number in times else NO_TIMESTAMP,
            _behind(found.logs[target.where].start_offset, target),
            _behind(found.logs[target.where].tombstone_floor, target) if number in keyed else None,
        )
        for number, target in enumerate(found.targets)
    )
    return SalvageFindings(targets, tuple(_run(row, found.copies) for row in rows))


def _behind(offset: int, target: CutPartition) -> int | None:
    return offset if offset > target.first_offset else None


def _run(row: Row, copies: Sequence[Copy]) -> MissingRun:
    copy = copies[row["copy"]]
    run = RecordRun(copy.broker_id, copy.name, row["leader_epoch"], row["first_offset"], row["last_offset"])
    return MissingRun(copy.where, run, bool(row["is_committed"]))
