"""How far groups are behind, as their coordinators have told, and when each will have read what is left.

A coordinator tells of each group every few seconds (coordinator/core/lags.py says what lag is). The time
until a lag is gone is what is left over the rate by which it has shrunk lately: an average of about a minute,
so that a group whose lag swings between two commits is not told to be nearly done. In memory, while this
controller is active; lists and details show the same figure from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from typing import Final, NamedTuple

from springtide.contract.groups import GroupLag

GROUPS_MAX: Final = 20_000
TOPICS_MAX: Final = 200_000
"""Of all groups together. Groups that were told longest ago are forgotten first; a hundred bytes each."""
FORGOTTEN_MS: Final = 120_000
"""A group that its coordinator has not told of for so long, while others are told of, is gone."""
SHRINKING_MEMORY_MS: Final = 60_000
"""After so long, what a lag lost counts for a third (1/e) of what it counted for."""
SHRINKING_WATCHED_MS_MIN: Final = 15_000
"""Before that a rate is one of a moment."""
BEHIND_MS_MIN: Final = 30_000
"""A group that is less far behind keeps up: its lag is what it reads between two commits."""


class _Shrinking(NamedTuple):
    """Records by which a lag has become less, and the time in which it did; older ones for less."""

    records: float = 0.0
    ms: float = 0.0


class LagRow(NamedTuple):
    """A lag as it was seen. records, ms: -1: not known. seen_ms: of a monotonic clock."""

    records: int
    ms: int
    seen_ms: int
    shrinking: _Shrinking = _Shrinking()

    def next(self, records: int, ms: int, seen_ms: int) -> LagRow:
        """Return the row after a later look."""
        passed_ms = seen_ms - self.seen_ms
        if passed_ms <= 0 or min(records, self.records) < 0:
            return LagRow(records, ms, seen_ms)
        left = exp(-passed_ms / SHRINKING_MEMORY_MS)
        before = self.shrinking
        shrinking = _Shrinking(before.records * left + self.records - records, before.ms * left + passed_ms)
        return LagRow(records, ms, seen_ms, shrinking)

    @property
    def until_gone_ms(self) -> int | None:
        """Return the time until nothing is left, at the rate of the last minute; None if the lag does not
        shrink, or is none to speak of."""
        records, ms = self.shrinking
        if ms < SHRINKING_WATCHED_MS_MIN or records <= 0 or self.ms < BEHIND_MS_MIN:
            return None
        return round(self.records * ms / records)


class KnownLag(NamedTuple):
    """A group. topics: by name, those that it has offsets of."""

    members: int
    total: LagRow
    topics: dict[str, LagRow]


class LagBook:
    __slots__ = ("_groups", "_groups_max", "_readers", "_topics", "_topics_max")

    def __init__(self, *, groups_max: int = GROUPS_MAX, topics_max: int = TOPICS_MAX) -> None:
        self._groups_max = groups_max
        self._topics_max = topics_max
        #: By group, those that were told longest ago first.
        self._groups: dict[str, KnownLag] = {}
        #: By topic, the groups that have offsets of it.
        self._readers: dict[str, dict[str, None]] = {}
        self._topics = 0

    def note(self, lags: Iterable[GroupLag], now_ms: int) -> None:
        """Take in what a coordinator tells. now_ms: monotonic."""
        for told in lags:
            seen_ms = now_ms - max(0, told.age_ms)
            before = self._forget(told.group_id)
            known_topics = {} if before is None else before.topics
            topics = {
                one.topic: _row(known_topics.get(one.topic), one.records, one.ms, seen_ms)
                for one in told.topics
            }
            total = _row(None if before is None else before.total, told.records, told.ms, seen_ms)
            self._groups[told.group_id] = KnownLag(told.members, total, topics)
            self._topics += len(topics)
            for topic in topics:
                self._readers.setdefault(topic, {})[told.group_id] = None
        while self._groups:
            oldest = next(iter(self._groups))
            is_gone = self._groups[oldest].total.seen_ms < now_ms - FORGOTTEN_MS
            if not is_gone and len(self._groups) <= self._groups_max and self._topics <= self._topics_max:
                break
            self._forget(oldest)

    def of(self, group_id: str) -> KnownLag | None:
        return self._groups.get(group_id)

    def readers(self, topic: str) -> dict[str, KnownLag]:
        """Return the groups that have offsets of a topic, by id."""
        return {group_id: self._groups[group_id] for group_id in self._readers.get(topic, ())}

    def readers_count(self, topic: str) -> int:
        return len(self._readers.get(topic, ()))

    def _forget(self, group_id: str) -> KnownLag | None:
        known = self._groups.pop(group_id, None)
        if known is not None:
            self._topics -= len(known.topics)
            for topic in known.topics:
                readers = self._readers[topic]
                del readers[group_id]
                if not readers:
                    del self._readers[topic]
        return known


def _row(before: LagRow | None, records: int, ms: int, seen_ms: int) -> LagRow:
    return LagRow(records, ms, seen_ms) if before is None else before.next(records, ms, seen_ms)
