"""How far groups are behind, without the false ramps of two clocks that drift. Pure.

The committed offset of a healthy group is a staircase: with stock settings it moves every 5 s, whatever is
produced meanwhile. Who compares it every 5 s with the log's end sees one point of each step, and the point
wanders: 24 records at one time, 760 a quarter of an hour later, and nothing has changed. So lag is what was
left at the newest commit: its offset against the log's end *at that time*, between two looks at the end in
proportion. A group that commits later than is its habit has lag as of now, which grows until it commits.

Lag in time is how long ago the log's end was where the group is now, by the ends that were seen.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.figures import GroupFigures
from springtide.wire.questions import Place

GAPS_SEEN: Final = 3
"""The longest of so many pauses between a partition's commits is its habit."""
LATE_FACTOR: Final = 2
"""A commit is late after so many times the habit."""
GAP_MS_MIN: Final = 5_000
GAP_MS_MAX: Final = 300_000
"""Shorter habits can't be seen, looking every 5 s. Longer ones (a checkpoint, or once something that took
long) do not hide for more than ten minutes that a group has stopped."""
ENDS_MAX: Final = 32
"""Looks at a log's end that are remembered. The older half loses every other one when they are too many:
32 reach back some minutes in steps of a look, and hours in longer ones."""


class Lag(NamedTuple):
    """records: from the committed offset to the log's end. ms: how long ago the end was there; at least so
    long, if it was before the first look that is remembered. is_settled: the group's habit is known, or that
    it has stopped; before, a lag that grows may be the pause between two commits."""

    records: int
    ms: int
    is_settled: bool = True


class Ends:
    """A log's end over time, as it was seen."""

    __slots__ = ("offsets", "times_ms")

    def __init__(self) -> None:
        self.times_ms = array("q")
        self.offsets = array("q")

    def see(self, end: int, now_ms: int) -> None:
        """Note the end. One that moves back (the topic was made again, an unclean election) begins anew."""
        times_ms, offsets = self.times_ms, self.offsets
        if offsets and end < offsets[-1]:
            del times_ms[:], offsets[:]
        if len(offsets) > 1 and offsets[-2] == offsets[-1] == end:
            times_ms[-1] = now_ms
            return
        times_ms.append(now_ms)
        offsets.append(end)
        if len(offsets) > ENDS_MAX:
            half = ENDS_MAX // 2
            del times_ms[1:half:2], offsets[1:half:2]

    def at(self, time_ms: int) -> int | None:
        """Return the end at a time, in proportion between two looks; None before the first one."""
        return _between(time_ms, self.times_ms, self.offsets)

    def reached_ms(self, offset: int) -> int:
        """Return when the end was last at an offset; the first look if that was before it."""
        found = _between(offset, self.offsets, self.times_ms)
        return self.times_ms[0] if found is None else found


def _between(value: int, of: array[int], to: array[int]) -> int | None:
    """Map a value by points that ascend in both; None below the first, the last's from it on."""
    index = bisect_right(of, value)
    if index == len(of):
        return to[-1]
    if index == 0:
        return None
    low, high = of[index - 1], of[index]
    return to[index - 1] + (to[index] - to[index - 1]) * (value - low) // (high - low)


@dataclass(slots=True)
class _Commit:
    """The newest commit of a group for a partition. time_ms: monotonic; end: the log's at that time."""

    offset: int
    committed_ms: int
    time_ms: int
    end: int | None = None
    gaps_ms: list[int] = field(default_factory=list)

    def waits_ms(self, until_ms: int, ends: Ends | None) -> int:
        """Return for how long the group has had records after this commit: time without any is no pause."""
        begun_ms = self.time_ms if ends is None else max(self.time_ms, ends.reached_ms(self.offset))
        return until_ms - begun_ms

    def is_late(self, now_ms: int, ends: Ends) -> bool:
        return self.waits_ms(now_ms, ends) > LATE_FACTOR * max(self.gaps_ms, default=GAP_MS_MIN)

    def is_settled(self, now_ms: int) -> bool:
        return bool(self.gaps_ms) or now_ms - self.time_ms > LATE_FACTOR * GAP_MS_MAX


class Lags:
    """All groups of a process. A look is `see_ends`, then `see_group` for each group, then `keep`."""

    def __init__(self) -> None:
        self._ends: dict[Place, Ends] = {}
        self._commits: dict[str, dict[Place, _Commit]] = {}
        self._before_ms = self._now_ms = 0

    def see_ends(self, ends: Mapping[Place, int], now_ms: int) -> None:
        """Take in the ends that leaders told at a time (monotonic)."""
        self._before_ms, self._now_ms = self._now_ms, now_ms
        for place, end in ends.items():
            self._ends.setdefault(place, Ends()).see(end, now_ms)

    def keep(self, group_ids: Container[str], places: Container[Place]) -> None:
        """Forget all other groups and partitions: they are gone."""
        self._commits = {
            group_id: known for group_id, known in self._commits.items() if group_id in group_ids
        }
        self._ends = {place: ends for place, ends in self._ends.items() if place in places}

    def see_group(self, group: GroupFigures, ends: Mapping[Place, int], wall_ms: int) -> dict[Place, Lag]:
        """Take in the committed offsets of a group; return its lags.

        ends: as told just now; only their partitions have lags. wall_ms: of the clock that commits are
        stamped by, at the time of the ends.
        """
        before = self._commits.get(group.group_id, {})
        now: dict[Place, _Commit] = {}
        lags: dict[Place, Lag] = {}
        for place, committed in group.offsets.items():
            commit = before.get(place)
            if commit is None or commit.committed_ms != committed.committed_ms:
                commit = self._new_commit(commit, place, committed, wall_ms)
            now[place] = commit
            if place in ends:
                lags[place] = self._lag(commit, self._ends[place])
        self._commits[group.group_id] = now
        return lags

    def _new_commit(
        self, last: _Commit | None, place: Place, committed: CommittedOffset, wall_ms: int
    ) -> _Commit:
        """Return a commit that this look is the first to see: it was made since the look before, unless the
        group is new here. A wall clock that leaps puts it nowhere else."""
        time_ms = self._now_ms - max(0, wall_ms - committed.committed_ms)
        gaps_ms: list[int] = []
        if last is not None:
            time_ms = max(time_ms, self._before_ms)
            gap_ms = last.waits_ms(time_ms, self._ends.get(place))
            gaps_ms = [*last.gaps_ms[1 - GAPS_SEEN :], min(max(GAP_MS_MIN, gap_ms), GAP_MS_MAX)]
        return _Commit(committed.offset, committed.committed_ms, time_ms, gaps_ms=gaps_ms)

    def _lag(self, commit: _Commit, ends: Ends) -> Lag:
        if commit.end is None:
            commit.end = ends.at(commit.time_ms)
        end, time_ms = commit.end, commit.time_ms
        if end is None or commit.is_late(self._now_ms, ends):
            end, time_ms = ends.offsets[-1], self._now_ms
        records = max(0, end - commit.offset)
        ms = max(0, time_ms - ends.reached_ms(commit.offset)) if records else 0
        return Lag(records, ms, commit.is_settled(self._now_ms))
