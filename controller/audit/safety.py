"""A measure of how near partitions came to refusing acks=all in a time, from their audited states. Pure.

The slack of a partition is how many more replicas it has in sync than it must have: at 0 it still takes
writes with acks=all and may lose no further replica, below 0 it refuses them. What counts is the in-sync set
as the controller kept it at each moment, whichever replicas a running reassignment adds and drops.

    histories --measure(begin, end)--> worst slack, the minute in which most of it lay, all that fell below

Every minute is one of the clock's, from second 0 to 60, so that it can be found in other tools' graphs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

MINUTE_MS: Final = 60_000
#: Partitions named in a receipt, of each sort; all are counted.
SHOWN_MAX: Final = 20


class AuditedState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One audited state of a partition: when it began, and the row that says so. in_sync: None if the
    partition is gone."""

    at_ms: int
    audit_id: int
    cause: str
    in_sync: int | None
    min_insync_replicas: int = 0
    has_leader: bool = True


class History(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """seen: by version; the first is the state at the beginning, or the one in which the partition was made.
    is_whole: False when rows that belong between them were never written."""

    topic: str
    topic_id: str
    partition: int
    seen: tuple[AuditedState, ...]
    is_whole: bool = True


class Stretch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time in which one partition stayed as it was. until_ms: exclusive; as from_ms when the next state
    came within the same millisecond."""

    topic: str
    topic_id: str
    partition: int
    from_ms: int
    until_ms: int
    slack: int
    in_sync: int
    min_insync_replicas: int
    audit_id: int
    cause: str


class StretchTally(msgspec.Struct, frozen=True, kw_only=True):
    """The number of partitions with such stretches, and the total of the partition that had them longest."""

    partitions: int = 0
    ms_max: int = 0
    first: tuple[Stretch, ...] = ()


class Worst(msgspec.Struct, frozen=True, kw_only=True):
    """partitions: that came to this slack. minute_ms: the beginning of the minute in which they spent most
    time at it, added up to partition_ms."""

    slack: int
    partitions: int
    minute_ms: int
    partition_ms: int
    first: tuple[Stretch, ...]


class MeasuredSafety(msgspec.Struct, frozen=True, kw_only=True):
    """partitions: with any state in the time. holes: those whose history is not whole, and those without one.
    began_below: of those below their minimum, how many were so from the beginning."""

    partitions: int
    states: int
    worst: Worst | None
    below: StretchTally
    leaderless: StretchTally
    began_below: int
    holes: tuple[tuple[str, int], ...]
    holes_total: int


class Meter:
    """Takes histories one by one, so that a hundred thousand need not be held at once."""

    def __init__(self, *, begin_ms: int, end_ms: int) -> None:
        assert begin_ms <= end_ms, (begin_ms, end_ms)
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._partitions = 0
        self._states = 0
        self._slack: int | None = None
        #: Stretches at the lowest slack so far: (from, until); and the partitions that they belong to.
        self._at_worst: list[tuple[int, int]] = []
        self._worst_partitions = 0
        self._worst_first: list[Stretch] = []
        self._worst_last: tuple[str, int] | None = None
        self._below = _Counter()
        self._leaderless = _Counter()
        self._began_below = 0
        self._holes: list[tuple[str, int]] = []
        self._holes_total = 0

    def add(self, history: History) -> None:
        if not history.is_whole or not history.seen:
            self._holes_total += 1
            if len(self._holes) < SHOWN_MAX:
                self._holes.append((history.topic, history.partition))
        self._partitions += bool(history.seen)
        self._states += len(history.seen)
        stretches = list(_stretches(history, self._begin_ms, self._end_ms))
        for stretch, _ in stretches:
            self._add_to_worst(stretch)
        below = [stretch for stretch, _ in stretches if stretch.slack < 0]
        self._below.add(below)
        self._leaderless.add([stretch for stretch, has_leader in stretches if not has_leader])
        if below and below[0] is stretches[0][0] and below[0].from_ms == self._begin_ms:
            self._began_below += 1

    def _add_to_worst(self, stretch: Stretch) -> None:
        if self._slack is None or stretch.slack < self._slack:
            self._slack = stretch.slack
            self._at_worst = []
            self._worst_partitions = 0
            self._worst_first = []
            self._worst_last = None
        if stretch.slack > self._slack:
            return
        self._at_worst.append((stretch.from_ms, stretch.until_ms))
        key = (stretch.topic_id, stretch.partition)
        if key != self._worst_last:
            self._worst_last = key
            self._worst_partitions += 1
            if len(self._worst_first) < SHOWN_MAX:
                self._worst_first.append(stretch)

    def finish(self) -> MeasuredSafety:
        worst = None
        if self._slack is not None:
            minute_ms, partition_ms = worst_minute(self._at_worst)
            worst = Worst(
                slack=self._slack,
                partitions=self._worst_partitions,
                minute_ms=minute_ms,
                partition_ms=partition_ms,
                first=tuple(self._worst_first),
            )
        return MeasuredSafety(
            partitions=self._partitions,
            states=self._states,
            worst=worst,
            below=self._below.tally(),
            leaderless=self._leaderless.tally(),
            began_below=self._began_below,
            holes=tuple(self._holes),
            holes_total=self._holes_total,
        )


class _Counter:
    def __init__(self) -> None:
        self._partitions = 0
        self._ms_max = 0
        self._first: list[Stretch] = []

    def add(self, stretches: Sequence[Stretch]) -> None:
        """Count the stretches of one partition."""
        if not stretches:
            return
        self._partitions += 1
        self._ms_max = max(self._ms_max, sum(one.until_ms - one.from_ms for one in stretches))
        if len(self._first) < SHOWN_MAX:
            self._first.append(stretches[0])

    def tally(self) -> StretchTally:
        return StretchTally(partitions=self._partitions, ms_max=self._ms_max, first=tuple(self._first))


def _stretches(history: History, begin_ms: int, end_ms: int) -> Iterable[tuple[Stretch, bool]]:
    """Yield the states in order, with whether the partition had a leader, cut to the time that is asked
    about.

    A state begins no earlier than the one before it, even if another controller's clock said so.
    """
    from_ms = begin_ms
    for index, state in enumerate(history.seen):
        from_ms = min(max(from_ms, state.at_ms), end_ms)
        until_ms = end_ms
        if index + 1 < len(history.seen):
            until_ms = min(max(from_ms, history.seen[index + 1].at_ms), end_ms)
        if state.in_sync is None:
            continue
        stretch = Stretch(
            topic=history.topic,
            topic_id=history.topic_id,
            partition=history.partition,
            from_ms=from_ms,
            until_ms=until_ms,
            slack=state.in_sync - state.min_insync_replicas,
            in_sync=state.in_sync,
            min_insync_replicas=state.min_insync_replicas,
            audit_id=state.audit_id,
            cause=state.cause,
        )
        yield stretch, state.has_leader


def worst_minute(stretches: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(beginning of the minute, milliseconds spent in it by all together) of the minute in which the
    stretches, each from and until, lie most; the earliest of several. There is at least one stretch."""
    changes: dict[int, int] = defaultdict(int)
    spent: dict[int, int] = defaultdict(int)
    for from_ms, until_ms in stretches:
        changes[from_ms] += 1
        changes[until_ms] -= 1
        # So that a stretch without a length has its minute, too.
        spent[_minute_of(from_ms)] += 0
    moments = sorted(changes)
    running = 0
    for moment, following in pairwise(moments):
        running += changes[moment]
        if running == 0:
            continue
        # Of the whole minutes in between, all alike, the first stands for all.
        first, last = _minute_of(moment), _minute_of(following)
        for minute in sorted({first, min(first + MINUTE_MS, last), last}):
            spent[minute] += running * max(0, min(following, minute + MINUTE_MS) - max(moment, minute))
    return min(spent.items(), key=lambda found: (-found[1], found[0]))


def _minute_of(at_ms: int) -> int:
    return at_ms - at_ms % MINUTE_MS
