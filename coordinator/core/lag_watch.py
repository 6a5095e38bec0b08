"""Groups whose lag grows: the least lag of each period is above that of the period before, again and again.

What is watched is the lag at commits (lags.py). Still it wavers, by what a poll brings. So it has to grow by
a share of what was produced meanwhile: a group that keeps up does not waver by so much, however often it is
watched. A lag that is not known leaves no trace, and a period without any known lag begins the comparison
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple


class GrowthRule(NamedTuple):
    """Lag that grew over this many periods on end, of so many looks each, by a share of what was produced."""

    looks: int
    periods: int
    share: float


FAST: Final = GrowthRule(looks=2, periods=3, share=0.1)
"""With a look every 5 s a group that stops, or reads nine tenths of what is produced, is told in a minute."""
SLOW: Final = GrowthRule(looks=24, periods=5, share=0.01)
"""After twelve minutes: reading a hundredth less than is produced."""


class TotalLag(NamedTuple):
    """Of a group: records that it has yet to read, and the sum of the ends of its logs."""

    records: int
    ends: int


class LagWatch:
    """The lags of groups with members, as they were seen over time."""

    __slots__ = ("_current", "_least", "_looks", "_rule")

    def __init__(self, rule: GrowthRule) -> None:
        self._rule = rule
        self._looks = 0
        #: The least lag of each group in the present period, and of the periods before it.
        self._current: dict[str, TotalLag] = {}
        self._least: dict[str, tuple[TotalLag, ...]] = {}

    def see(self, lags: Mapping[str, TotalLag | None]) -> None:
        """Take in the lags of all groups with members; None if a lag is not known."""
        for group_id, lag in lags.items():
            if lag is not None:
                self._current[group_id] = min(lag, self._current.get(group_id, lag))
        self._looks += 1
        if self._looks % self._rule.looks == 0:
            self._least = {
                group_id: (*self._least.get(group_id, ()), least)[-self._rule.periods - 1 :]
                for group_id, least in self._current.items()
                if group_id in lags
            }
            self._current = {}

    def growing(self) -> dict[str, tuple[int, int]]:
        """Return the groups whose lag grows: the least of the period before it did, and of the last one."""
        return {
            group_id: (least[0].records, least[-1].records)
            for group_id, least in self._least.items()
            if len(least) > self._rule.periods
            and all(one.records < other.records for one, other in pairwise(least))
            and least[-1].records - least[0].records > self._rule.share * (least[-1].ends - least[0].ends)
        }

    def has_grown(self, group_id: str) -> bool:
        """Return whether a group's lag is above what it was so many periods ago, if not steadily."""
        least = self._least.get(group_id, ())
        return len(least) > self._rule.periods and least[0].records < least[-1].records
