"""What a query's filters say about which offsets can matter, so that the others are never fetched. Pure.

Only to leave out what no row can come of: Spark applies every filter again to what is read, so a filter that
is not understood here, or only in part, costs time and nothing else. Filters of one query are ANDed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.client.values import FoundOffset, PartitionRange, TopicPartition
from pipeline.source.offset_json import INT64_MAX

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class Comparison(NamedTuple):
    """`column operator value`; `operator` is one of = < <= > >= in. With `in`, the value is a tuple."""

    column: str
    operator: str
    value: object


class Span(NamedTuple):
    """Whole numbers, both ends included."""

    least: int = 0
    most: int = INT64_MAX

    def within(self, operator: str, value: object) -> Span:
        """Narrowed by a comparison; itself if the comparison says nothing about whole numbers."""
        values = [each for each in _values(value) if isinstance(each, int) and not isinstance(each, bool)]
        if len(values) != len(_values(value)):
            return self
        if not values:  # IN of nothing, or of nulls only: no row
            return Span(1, 0)
        low, high = min(values), max(values)
        match operator:
            case "=" | "in":
                return Span(max(self.least, low), min(self.most, high))
            case "<":
                return self._replace(most=min(self.most, high - 1))
            case "<=":
                return self._replace(most=min(self.most, high))
            case ">":
                return self._replace(least=max(self.least, low + 1))
            case ">=":
                return self._replace(least=max(self.least, low))
        return self

    def holds(self, number: int) -> bool:
        return self.least <= number <= self.most


class Bounds(NamedTuple):
    """What rows must lie within. topics None: any. timestamp_ms: no row is older."""

    topics: frozenset[str] | None = None
    partitions: Span = Span()
    offsets: Span = Span()
    timestamp_ms: int = 0

    def narrowed(self, comparison: Comparison) -> Bounds:
        column, operator, value = comparison
        match column.lower():
            case "topic":
                names = frozenset(each for each in _values(value) if isinstance(each, str))
                if operator not in ("=", "in") or len(names) < len(set(_values(value))):
                    return self
                return self._replace(topics=names if self.topics is None else self.topics & names)
            case "partition":
                return self._replace(partitions=self.partitions.within(operator, value))
            case "offset":
                return self._replace(offsets=self.offsets.within(operator, value))
            case "timestamp" if operator in ("=", ">", ">=") and (since := _milliseconds(value)) is not None:
                return self._replace(timestamp_ms=max(self.timestamp_ms, since))
        return self


def bounds_of(comparisons: Iterable[Comparison]) -> Bounds:
    bounds = Bounds()
    for comparison in comparisons:
        bounds = bounds.narrowed(comparison)
    return bounds


def narrow(ranges: Iterable[PartitionRange], bounds: Bounds) -> list[PartitionRange]:
    """The parts of the ranges that can hold a row, but for timestamps; no empty one."""
    narrowed = [
        one._replace(
            start_offset=max(one.start_offset, bounds.offsets.least),
            end_offset=min(one.end_offset, bounds.offsets.most + 1),
        )
        for one in ranges
        if (bounds.topics is None or one.topic in bounds.topics) and bounds.partitions.holds(one.partition)
    ]
    return [one for one in narrowed if one.start_offset < one.end_offset]


def since(
    ranges: Sequence[PartitionRange], found: Mapping[TopicPartition, FoundOffset]
) -> list[PartitionRange]:
    """From the first record on that is late enough. `found`: ListOffsets' answers for the time."""
    later = [
        one._replace(start_offset=max(one.start_offset, found[one.where].offset))
        for one in ranges
        if found[one.where].offset >= 0
    ]
    return [one for one in later if one.start_offset < one.end_offset]


def _values(value: object) -> tuple[object, ...]:
    """Those that a row can equal: nulls equal nothing."""
    told = value if isinstance(value, tuple) else (value,)
    return tuple(each for each in told if each is not None)


def _milliseconds(value: object) -> int | None:
    """Of a moment, rounded down; None for anything else, and for a time of day without a zone."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MILLISECOND
