"""The plan of the next batch, made from the table's progress and the cluster's answers. Pure.

Invariant: a partition's spans meet. Each batch begins where the last manifest ended; only an allowed loss
leaves a gap, and the manifest names it. So no offset is landed twice, and none is left out unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.client.offset_words import read_until
from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.errors import LandError
from pipeline.land.documents import Compression, LandPlan, Manifest, PartitionSpan
from pipeline.source.planning import PlanOptions, limit_rate, plan_tasks
from springtide.wire.fetch_response import EpochEnd

RECORDS_WORTH_A_TASK = 100_000
"""Fewer are not spread over more tasks: each task makes files of its own."""
RANGES_WORTH_A_TASK = 50
"""Each range makes at least one file, which costs some milliseconds even if it is small."""
ALLOW_LOSS = "--allow-loss continues without them, and records it in the table."
ELSEWHERE = "Land it to another place: this table stays unchanged and readable."


class LandedPartition(NamedTuple):
    """Progress of a partition: offsets `first_offset` to `next_offset` (exclusive) are landed as `records`
    rows, except `skipped` offsets that were gone. `leader_epoch`: that of the last span (PartitionSpan)."""

    first_offset: int
    next_offset: int
    leader_epoch: int
    records: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class LandProgress:
    """A table after its first `batches` batches."""

    batches: int = 0
    partitions: Mapping[TopicPartition, LandedPartition] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def after(self, manifest: Manifest) -> LandProgress:
        """Return the progress with one batch more. Raises LandError unless it continues where this ends."""
        if manifest.batch != self.batches:
            raise LandError(f"batch {manifest.batch} can't follow after {self.batches} batches")
        partitions = dict(self.partitions)
        for span in manifest.spans:
            known = partitions.get(span.where)
            if known is None:
                known = LandedPartition(span.start_offset, span.start_offset, -1)
            elif span.start_offset < known.next_offset:
                raise LandError(
                    f"batch {manifest.batch} has {span.where} from offset {span.start_offset} on, and "
                    f"offsets up to {known.next_offset - 1} are in earlier batches"
                )
            partitions[span.where] = LandedPartition(
                known.first_offset,
                span.end_offset,
                span.leader_epoch,
                known.records + span.records,
                known.skipped + span.skipped + span.start_offset - known.next_offset,
            )
        return LandProgress(self.batches + 1, partitions, {**self.topic_ids, **manifest.topic_ids})


class Observed(NamedTuple):
    """Answers of the cluster. `earliest` and `ends`: where the wanted partitions' logs begin and end now.
    `starts`: where to begin in partitions that the table does not know. `goals`: where to end, if not at the
    logs' ends. `epoch_ends`: where those leader epochs ended that the table remembers."""

    topic_ids: Mapping[str, str]
    earliest: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, FoundOffset]
    starts: Mapping[TopicPartition, int]
    goals: Mapping[TopicPartition, int] | None = None
    epoch_ends: Mapping[TopicPartition, EpochEnd] = {}


class PlanSettings(NamedTuple):
    """Settings for cutting and writing. Sizes are counted in offsets. `records_per_task`: the most a task
    reads of one partition; smaller ranges share a task. `parallelism`: tasks that can run at a time.
    `records_per_batch`: about the most that one batch lands; None: no limit."""

    records_per_task: int
    records_per_batch: int | None
    parallelism: int = 1
    compression: Compression = "zstd"
    compression_level: int | None = None
    read_committed: bool = False
    allow_loss: bool = False


def check_topic_ids(known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise LandError for a topic that was deleted and created again: it has other records at the same
    offsets."""
    for topic, topic_id in sorted(known.items()):
        found = now.get(topic)
        if topic_id and found and found != topic_id:
            raise LandError(
                f"topic {topic} is not the one that is in this table: it was deleted and created again "
                f"(its id was {topic_id}, and is {found})",
                ELSEWHERE,
            )


def remembered_epochs(progress: LandProgress, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the leader epochs to ask OffsetForLeaderEpoch about."""
    return {
        where: progress.partitions[where].leader_epoch
        for where in wanted
        if where in progress.partitions and progress.partitions[where].leader_epoch >= 0
    }


def next_plan(
    progress: LandProgress, observed: Observed, settings: PlanSettings, *, now_ms: int
) -> tuple[LandPlan | None, bool]:
    """Return the next batch, None if there is nothing to land; and whether another is due after it.

    New partitions are planned even without records, which pins where they begin. Raises LandError for offsets
    that are gone, or were cut off after they were landed, unless losses are allowed.
    """
    check_topic_ids(progress.topic_ids, observed.topic_ids)
    losses: list[str] = []
    news: set[TopicPartition] = set()  # worth a span without offsets: it pins a start, or follows a loss
    starts: dict[TopicPartition, int] = {}
    for where in sorted(observed.ends):
        known = progress.partitions.get(where)
        if known is None:
            starts[where] = observed.starts[where]
            news.add(where)
            continue
        if (cut := _cut_off(where, known, observed.epoch_ends)) is not None:
            losses.append(cut)
        starts[where] = max(known.next_offset, observed.earliest[where])
        if starts[where] > known.next_offset:
            news.add(where)
            losses.append(
                f"{where}: offsets {known.next_offset} to {starts[where] - 1} were removed before they "
                "were landed"
            )
    if losses and not settings.allow_loss:
        shown = "; ".join(losses[:10]) + ("; ..." if len(losses) > 10 else "")
        raise LandError(f"records are lost: {shown}", ALLOW_LOSS)
    goals = _goals(starts, observed)
    ends = goals
    if settings.records_per_batch is not None:
        ends = limit_rate(starts, goals, max_offsets=settings.records_per_batch)
    spans = tuple(
        PartitionSpan(*where, starts[where], ends[where], observed.ends[where].leader_epoch)
        for where in starts
        if ends[where] > starts[where] or where in news
    )
    if not spans:
        return None, False
    plan = LandPlan(
        batch=progress.batches,
        planned_ms=now_ms,
        topic_ids={span.topic: observed.topic_ids.get(span.topic, "") for span in spans},
        spans=spans,
        tasks=_tasks(spans, settings),
        compression=settings.compression,
        compression_level=settings.compression_level,
        read_committed=settings.read_committed,
        losses=tuple(losses),
    )
    return plan, ends != goals


def _cut_off(
    where: TopicPartition, known: LandedPartition, epoch_ends: Mapping[TopicPartition, EpochEnd]
) -> str | None:
    end = epoch_ends.get(where)
    if end is None or max(end.end_offset, 0) >= known.next_offset:
        return None
    landed = f"{where} is landed {read_until(known.next_offset)}, but"
    if end.end_offset < 0:
        return f"{landed} its leader does not know leader epoch {known.leader_epoch}: the log is another one"
    return (
        f"{landed} leader epoch {known.leader_epoch} ended before offset {end.end_offset}: an unclean "
        "election cut off records that are in the table, and others may stand at their offsets"
    )


def _goals(starts: Mapping[TopicPartition, int], observed: Observed) -> dict[TopicPartition, int]:
    """Return where each span ends: never below its start, also where a log is shorter now."""
    goals = {}
    for where, start in starts.items():
        end = observed.ends[where].offset
        if observed.goals is not None:
            end = min(end, observed.goals.get(where, start))
        goals[where] = max(start, end)
    return goals


def _tasks(spans: Sequence[PartitionSpan], settings: PlanSettings) -> tuple[tuple[PartitionRange, ...], ...]:
    ranges = [PartitionRange(*span[:4]) for span in spans if span.end_offset > span.start_offset]
    total = sum(one.end_offset - one.start_offset for one in ranges)
    worth = max(total // RECORDS_WORTH_A_TASK, len(ranges) // RANGES_WORTH_A_TASK)
    options = PlanOptions(
        min_partitions=max(1, min(settings.parallelism, worth)),
        max_records_per_partition=settings.records_per_task,
        coalesce_records=settings.records_per_task,
    )
    return tuple(plan_tasks(ranges, options))
