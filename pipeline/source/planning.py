"""The size of a micro-batch, and the ranges that each of its tasks reads. Pure, deterministic in (start, end,
options).

Tasks: a range longer than its share is split, small ranges are packed together. A Python task costs 15 to 30
ms before it reads, a JVM task 2 to 5: the official source's task per topic-partition would spend most of a
slow query's time on starting tasks, so packing is on by default. A range costs its task about 0.1 ms even if
it is empty, so a task takes no more than RANGES_MAX. Sizes are counted in offsets, which a repeated plan
finds unchanged; bytes may differ.

Rates: `maxOffsetsPerTrigger` is shared out in proportion to each partition's backlog, at least one for each
that has a backlog (Spark, KafkaMicroBatchStream.rateLimit). `minOffsetsPerTrigger` waits for that many, but
not longer than `maxTriggerDelay` (SPARK-35312).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.client.values import PartitionRange, TopicPartition
from pipeline.source.offset_json import Offsets
from pipeline.source.offsets import FIRST_OFFSET, backlog


class PlanOptions(NamedTuple):
    """Limits of planning; None: no limit. SourceOptions has the names that users know."""

    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    coalesce_records: int | None = None
    """Ranges are packed up to so many offsets a task; None: one range, one task."""


TASKS_MAX = 1_000_000
"""More than this are a mistake, such as a `maxRecordsPerPartition` of 1 over a large log."""

RANGES_MAX = 2_000
"""Small ranges that are packed into one task: a quarter of a second's reading, ten times a task's cost."""


def plan_tasks(ranges: Sequence[PartitionRange], options: PlanOptions) -> list[tuple[PartitionRange, ...]]:
    """Return ranges for each task: together exactly `ranges`, and no task holds two of one partition. Raises
    ValueError for more than TASKS_MAX tasks."""
    total = sum(_size(one) for one in ranges)
    if total == 0:
        return []
    parts = _parts(ranges, total, options)
    if sum(parts) > TASKS_MAX:
        raise ValueError(
            f"{sum(parts)} tasks exceed {TASKS_MAX}: raise maxRecordsPerPartition or lower minPartitions"
        )
    pieces = [piece for one, count in zip(ranges, parts, strict=True) for piece in _split(one, count)]
    limit = options.coalesce_records
    if limit is None:
        return [(piece,) for piece in pieces]
    if options.min_partitions is not None:
        limit = min(limit, total // options.min_partitions)
    if options.max_records_per_partition is not None:
        limit = min(limit, options.max_records_per_partition)
    return _pack(pieces, limit, tasks_min=options.min_partitions or 1)


def _size(one: PartitionRange) -> int:
    return one.end_offset - one.start_offset


def _parts(ranges: Sequence[PartitionRange], total: int, options: PlanOptions) -> list[int]:
    """Return into how many pieces each range is cut: none is longer than the maximum, and together they are
    at least `min_partitions` (if there are so many offsets), in proportion to length."""
    longest = options.max_records_per_partition
    parts = [1 if longest is None else -(-_size(one) // longest) for one in ranges]
    wanted = options.min_partitions
    if wanted is None or sum(parts) >= wanted:
        return parts
    fair = [max(part, _size(one) * wanted // total) for one, part in zip(ranges, parts, strict=True)]
    missing = wanted - sum(fair)
    # What rounding left goes to those whose pieces are longest; equal ones in order.
    by_remainder = sorted(
        range(len(ranges)), key=lambda index: (-(_size(ranges[index]) * wanted % total), index)
    )
    for index in by_remainder[: max(missing, 0)]:
        fair[index] += 1
    return [min(count, _size(one)) for one, count in zip(ranges, fair, strict=True)]


def _split(one: PartitionRange, count: int) -> list[PartitionRange]:
    """Return `count` pieces whose lengths differ by at most one."""
    size = _size(one)
    cuts = [one.start_offset + size * index // count for index in range(count + 1)]
    return [one._replace(start_offset=cuts[index], end_offset=cuts[index + 1]) for index in range(count)]


def _pack(
    pieces: Sequence[PartitionRange], limit: int, *, tasks_min: int
) -> list[tuple[PartitionRange, ...]]:
    """Join neighbours, RANGES_MAX at most, while they hold no more than `limit` offsets and `tasks_min` tasks
    are left; a longer piece stays alone."""
    joins_left = len(pieces) - tasks_min
    tasks: list[tuple[PartitionRange, ...]] = []
    held: list[PartitionRange] = []
    held_size = 0
    for piece in pieces:
        size = _size(piece)
        fits = joins_left > 0 and held_size + size <= limit and len(held) < RANGES_MAX
        if held and fits and held[-1].where != piece.where:
            joins_left -= 1
        elif held:
            tasks.append(tuple(held))
            held, held_size = [], 0
        held.append(piece)
        held_size += size
    if held:
        tasks.append(tuple(held))
    return tasks


def limit_rate(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], *, max_offsets: int
) -> Offsets:
    """Return an end about `max_offsets` offsets after `start`, at least one for each partition with a
    backlog. Partitions without one keep their `latest`."""
    behind = backlog(start, latest)
    total = sum(behind.values())
    if total <= max_offsets:
        return dict(latest)
    limited = dict(latest)
    for where, count in behind.items():
        share = max(1, max_offsets * count // total)
        limited[where] = start.get(where, FIRST_OFFSET) + min(share, count)
    return limited


class TriggerClock(NamedTuple):
    """Time of the last micro-batch with records; None: none had any since this query started."""

    last_taken_ms: int | None = None

    def should_wait(
        self,
        start: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        *,
        now_ms: int,
        min_offsets: int,
        max_delay_ms: int,
    ) -> bool:
        """Return whether too few offsets have come, and there is time left to wait. The first micro-batch
        never waits, as in the official source."""
        if self.last_taken_ms is None or now_ms - self.last_taken_ms >= max_delay_ms:
            return False
        return sum(backlog(start, latest).values()) < min_offsets
