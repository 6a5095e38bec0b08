"""Landed files against the log: is each record in the files once? Pure.

Records are counted by offset ranges: a landed file names the range that its task read and the number of its
records; the verification knows which offsets hold records. Only verified offsets can be counted, so none
below the log's start. A compacted log may have lost records since they were landed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.verify.findings import Finding, Flaw, finding_of
from pipeline.verify.joining import VerifiedPartition
from pipeline.verify.log_order import Held


class LandedRange(NamedTuple):
    """Offsets `start_offset` to `end_offset` (exclusive) were landed as so many records. `name`: for people.
    `skipped`: offsets that were gone when they were to be landed."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int
    skipped: int
    name: str


class LandedCounts(NamedTuple):
    """`compared`: records of the log that were counted against landed ones. `waiting`: records of the log
    after the last landed one. `before`: landed records below the verified offsets."""

    findings: tuple[Finding, ...]
    compared: int
    waiting: int
    before: int


def compare_landed(partitions: Iterable[VerifiedPartition], landed: Iterable[LandedRange]) -> LandedCounts:
    """Compare each partition that was landed; its `held` must have been kept."""
    by_partition: dict[TopicPartition, list[LandedRange]] = defaultdict(list)
    for one in landed:
        by_partition[TopicPartition(one.topic, one.partition)].append(one)
    findings: list[Finding] = []
    compared = waiting = before = 0
    for result in partitions:
        ranges = sorted(by_partition.get(result.where, ()), key=lambda one: one[2:4])
        if not ranges or result.is_gone:
            continue
        found = _compare(result, ranges)
        findings += found.findings
        compared += found.compared
        waiting += found.waiting
        before += found.before
    return LandedCounts(tuple(findings), compared, waiting, before)


def _compare(result: VerifiedPartition, ranges: Sequence[LandedRange]) -> LandedCounts:
    counter = _Counter(result.held)
    findings: list[Finding] = []
    compared = before = 0
    reached = ranges[0].start_offset

    def tell(kind: Flaw, first: int, last: int, detail: str) -> None:
        findings.append(finding_of(result.where, kind, first, last, detail))

    for one in ranges:
        if one.start_offset > reached:
            first = max(reached, result.first_offset)
            missing = counter.records(first, min(one.start_offset, result.next_offset))
            if missing:
                detail = f"{missing} records; {one.name} begins behind them"
                tell(Flaw.LANDED_MISSING, first, one.start_offset - 1, detail)
        elif one.start_offset < reached:
            last = min(reached, one.end_offset) - 1
            if last >= one.start_offset:
                tell(Flaw.LANDED_TWICE, one.start_offset, last, f"{one.name} and one before it")
        reached = max(reached, one.end_offset)
        if one.start_offset < result.first_offset:
            before += one.records
            continue
        if one.end_offset > result.next_offset:
            continue  # landed since we asked where the log ends
        expected = counter.records(one.start_offset, one.end_offset)
        if expected is None:
            continue  # a compacted batch lies across its edge
        compared += expected
        is_more = one.records > expected and not result.is_compacted
        if is_more or one.records < expected - one.skipped:
            detail = f"{one.name} has {one.records} records, the log has {expected}"
            tell(Flaw.LANDED_COUNT, one.start_offset, one.end_offset - 1, detail)
    waiting = counter.records(max(reached, result.first_offset), result.next_offset) or 0
    return LandedCounts(tuple(findings), compared, waiting, before)


class _Counter:
    """Counts records between two offsets."""

    def __init__(self, held: Sequence[Held]) -> None:
        self._held = held
        self._next_offsets = [one.next_offset for one in held]
        self._before = [0]
        for one in held:
            self._before.append(self._before[-1] + one.records)

    def records(self, first: int, following: int) -> int | None:
        """Return the records of offsets `first` to `following` (exclusive); None if a stretch with holes lies
        across an edge."""
        if first >= following:
            return 0
        low, high = self._below(first), self._below(following)
        return None if low is None or high is None else high - low

    def _below(self, offset: int) -> int | None:
        index = bisect_right(self._next_offsets, offset)
        count = self._before[index]
        if index < len(self._held) and self._held[index].first_offset < offset:
            inside = self._held[index]
            if inside.records == 0:
                return count
            if not inside.is_dense:
                return None
            count += offset - inside.first_offset
        return count


def ranges_of(
    spans: Iterable[tuple[str, int, int, int, int, int]],
    files: Mapping[tuple[str, int, int, int], int],
    *,
    batch: int,
) -> list[LandedRange]:
    """Cut a manifest's spans (topic, partition, start, end, records, skipped) at its files' ranges, so a
    wrong count is reported for the range that is wrong. files: records by (topic, partition, start, end). A
    span with skipped offsets stays whole: the manifest does not tell which of its ranges they were in."""
    by_partition: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    for (topic, partition, start, end), records in files.items():
        by_partition[topic, partition].append((start, end, records))
    found: list[LandedRange] = []
    name = f"batch {batch}"
    for topic, partition, start, end, records, skipped in spans:
        if skipped:
            found.append(LandedRange(topic, partition, start, end, records, skipped, name))
            continue
        reached = start
        for first, following, count in sorted(by_partition.get((topic, partition), ())):
            if first > reached:
                found.append(LandedRange(topic, partition, reached, first, 0, 0, name))
            found.append(LandedRange(topic, partition, first, following, count, 0, name))
            reached = following
        if reached < end:
            found.append(LandedRange(topic, partition, reached, end, 0, 0, name))
    return found
