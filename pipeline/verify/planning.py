"""Which offsets are verified, and which task reads which. Pure.

A reader may not be allowed to ask for sizes in bytes, so tasks are cut by offsets, as the source's are. A
partition is cut only if its pieces are worth a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.client.values import ClusterMetadata, PartitionRange, TopicPartition
from pipeline.source.planning import PlanOptions, plan_tasks

RECORDS_PER_TASK_MIN = 20_000
"""A task costs 30 ms before it reads, so it should read some megabytes."""
TASKS_PER_SLOT = 3
"""A slot that got small ranges takes further tasks while another slot reads large ones."""


class Bounds(NamedTuple):
    """Start and end (exclusive) of a partition's verification. `is_log_start`: it begins at the log's
    start."""

    start_offset: int
    end_offset: int
    is_log_start: bool


class RangeTask(NamedTuple):
    """`replicas`: broker ids, the leader's first. `takes_head`: see ReplicaStream. `is_compacted`: holes
    are no fault, and replicas are compared if they have applied the same rounds of compaction."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    takes_head: bool = False
    is_compacted: bool = False


def bounds_of(
    *,
    earliest: int,
    latest: int,
    wanted_start: int | None = None,
    wanted_end: int | None = None,
) -> Bounds:
    """Return the wanted offsets that the log has; None: from its start, to its high watermark."""
    start = earliest if wanted_start is None else max(wanted_start, earliest)
    end = latest if wanted_end is None else min(wanted_end, latest)
    return Bounds(start, max(start, end), start == earliest)


def plan_verification(
    bounds: Mapping[TopicPartition, Bounds],
    metadata: ClusterMetadata,
    *,
    slots: int,
    compacted: frozenset[str] = frozenset(),
    records_per_task: int | None = None,
) -> list[tuple[RangeTask, ...]]:
    """Return the ranges of each task; partitions without offsets have none. Each replica that Metadata names
    is read, the leader's first."""
    ranges = [
        PartitionRange(where.topic, where.partition, one.start_offset, one.end_offset)
        for where, one in sorted(bounds.items())
        if one.start_offset < one.end_offset
    ]
    total = sum(one.end_offset - one.start_offset for one in ranges)
    if not total:
        return []
    tasks_wanted = max(1, min(slots * TASKS_PER_SLOT, total // RECORDS_PER_TASK_MIN))
    longest = records_per_task or max(1, -(-total // tasks_wanted))
    options = PlanOptions(max_records_per_partition=longest, coalesce_records=longest)
    tasks = plan_tasks(ranges, options)
    return [tuple(_task(one, bounds, metadata, compacted) for one in task) for task in tasks]


def _task(
    one: PartitionRange,
    bounds: Mapping[TopicPartition, Bounds],
    metadata: ClusterMetadata,
    compacted: frozenset[str],
) -> RangeTask:
    known = metadata.partition(one.where)
    assert known is not None, "its ends were asked for"
    within = bounds[one.where]
    leader_first = sorted(known.replicas, key=lambda broker_id: broker_id != known.leader_id)
    return RangeTask(
        one.topic,
        one.partition,
        one.start_offset,
        one.end_offset,
        tuple(leader_first),
        tuple(known.isr),
        takes_head=within.is_log_start and one.start_offset == within.start_offset,
        is_compacted=one.topic in compacted,
    )


def offsets_of(tasks: Iterable[Sequence[RangeTask]]) -> int:
    """Return how many offsets the tasks read."""
    return sum(one.end_offset - one.start_offset for task in tasks for one in task)
