"""What the next batch lands, from what the table has and what the cluster says. Pure.

Invariant: a partition's spans meet. Each batch begins where the last manifest ended; only an allowed loss
makes a step, and is told. So no offset is landed twice, and none is left out unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.client.values import EpochEnd, FoundOffset, PartitionRange, TopicPartition
from pipeline.land.documents import Manifest, PartitionSpan, Plan
from pipeline.land.errors import LandError
from pipeline.source.planning import PlanOptions, limit_rate, plan_tasks

RECORDS_WORTH_A_TASK = 100_000
"""Fewer are not spread over more tasks for the sake of speed: each task makes files of its own."""
RANGES_WORTH_A_TASK = 50
"""Each range makes a file at least, which costs some milliseconds whatever is in it."""
ALLOW_LOSS = "--allow-loss goes on without them, and notes it in the table."
ELSEWHERE = "Land it to another place: this table stays as it is, and readable."


class PartitionState(NamedTuple):
    """How far a partition is: offsets `first_offset` to `next_offset` (exclusive) are landed, `records` rows,
    but for `skipped` offsets that were gone. `leader_epoch` is what the leader's was at `next_offset`."""

    first_offset: int
    next_offset: int
    leader_epoch: int
    records: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A table after its first `batches` batches."""

    batches: int = 0
    partitions: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def after(self, manifest: Manifest) -> Progress:
        """With one batch more. Raises LandError unless it goes on where this ends."""
        if manifest.batch != self.batches:
            raise LandError(f"batch {manifest.batch} can't follow after {self.batches} batches")
        partitions = dict(self.partitions)
        for span in manifest.spans:
            known = partitions.get(span.where)
            if known is None:
                known = PartitionState(span.start_offset, span.start_offset, -1)
            elif span.start_offset < known.next_offset:
                raise LandError(
                    f"batch {manifest.batch} has {span.where} from offset {span.start_offset} on, and "
                    f"offsets up to {known.next_offset} are in earlier batches"
                )
            partitions[span.where] = PartitionState(
                known.first_offset,
                span.end_offset,
                span.leader_epoch,
                known.records + span.records,
                known.skipped + span.skipped + span.start_offset - known.next_offset,
            )
        return Progress(self.batches + 1, partitions, {**self.topic_ids, **manifest.topic_ids})


class Observed(NamedTuple):
    """What the cluster says. `earliest` and `ends` are the logs' ends now, of every partition that is wanted;
    `starts` says where partitions that the table does not know begin; `goals` where landing is to end, if not
    at the logs' ends; `epoch_ends` where the leader epochs ended that the table remembers."""

    topic_ids: Mapping[str, str]
    earliest: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, FoundOffset]
    starts: Mapping[TopicPartition, int]
    goals: Mapping[TopicPartition, int] | None = None
    epoch_ends: Mapping[TopicPartition, EpochEnd] = {}


class PlanSettings(NamedTuple):
    """How to cut and write. Offsets, not bytes, are what a plan measures in: `records_per_task` is the most a
    task reads of one partition, smaller ranges share a task; `parallelism` tasks can run at a time;
    `records_per_batch` is about what one manifest covers (None: all there is)."""

    records_per_task: int
    records_per_batch: int | None
    parallelism: int = 1
    compression: str = "zstd"
    compression_level: int | None = None
    read_committed: bool = False
    allow_loss: bool = False


def check_topic_ids(known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """A topic that was deleted and created anew has other records at the same offsets. Raises LandError."""
    for topic, topic_id in sorted(known.items()):
        found = now.get(topic)
        if topic_id and found and found != topic_id:
            raise LandError(
                f"topic {topic} is not the one that is in this table: it was deleted and created anew "
                f"(its id was {topic_id}, and is {found})",
                ELSEWHERE,
            )


def remembered_epochs(progress: Progress, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """What to ask OffsetForLeaderEpoch."""
    return {
        where: progress.partitions[where].leader_epoch
        for where in wanted
        if where in progress.partitions and progress.partitions[where].leader_epoch >= 0
    }


def next_plan(
    progress: Progress, observed: Observed, settings: PlanSettings, *, now_ms: int
) -> tuple[Plan | None, bool]:
    """The next batch, or None if there is nothing to land; and whether another is due after it.

    A batch without records is planned when partitions are new: it pins where they begin. Raises LandError for
    offsets that are gone, or were cut off after they were landed, unless losses are allowed.
    """
    check_topic_ids(progress.topic_ids, observed.topic_ids)
    losses: list[str] = []
    starts: dict[TopicPartition, int] = {}
    for where in sorted(observed.ends):
        known = progress.partitions.get(where)
        if known is None:
            starts[where] = observed.starts[where]
            continue
        if (cut := _cut_off(where, known, observed.epoch_ends)) is not None:
            losses.append(cut)
        starts[where] = max(known.next_offset, observed.earliest[where])
        if starts[where] > known.next_offset:
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
        if ends[where] > starts[where] or _is_news(progress, where, starts[where])
    )
    if not spans:
        return None, False
    plan = Plan(
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
    where: TopicPartition, known: PartitionState, epoch_ends: Mapping[TopicPartition, EpochEnd]
) -> str | None:
    end = epoch_ends.get(where)
    if end is None or max(end.end_offset, 0) >= known.next_offset:
        return None
    if end.end_offset < 0:
        return (
            f"{where} is landed up to offset {known.next_offset}, but its leader does not know leader epoch "
            f"{known.leader_epoch}: the log is another one"
        )
    return (
        f"{where} is landed up to offset {known.next_offset}, but leader epoch {known.leader_epoch} ended at "
        f"offset {end.end_offset}: an unclean election cut off records that are in the table, and others may "
        "stand at their offsets"
    )


def _goals(starts: Mapping[TopicPartition, int], observed: Observed) -> dict[TopicPartition, int]:
    """Never below a start: what the log has lost comes back, or the epochs tell."""
    goals = {}
    for where, start in starts.items():
        end = observed.ends[where].offset
        if observed.goals is not None:
            end = min(end, observed.goals.get(where, start))
        goals[where] = max(start, end)
    return goals


def _is_news(progress: Progress, where: TopicPartition, start: int) -> bool:
    """Whether a span without offsets has something to say: where a partition begins, or what was lost."""
    known = progress.partitions.get(where)
    return known is None or known.next_offset != start


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
