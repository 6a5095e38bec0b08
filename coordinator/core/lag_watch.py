"""Groups whose lag grows: the least lag of each period is above that of the period before, again and again.

The least of a period is what is left just after a commit. So a group that commits in large steps, or whose
producers write in bursts, does not count as one that falls behind. A lag that is not known leaves no trace,
and a period without any known lag begins the comparison again.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

PERIOD_MS: Final = 120_000
PERIODS: Final = 5
"""Lag that grew over this many periods on end is told: after ten minutes."""


class LagWatch:
    """The lags of groups with members, as they were seen over time."""

    __slots__ = ("_current", "_least", "_period")

    def __init__(self) -> None:
        #: The number of the present period, the least lag of each group in it, and of the periods before it.
        self._period = -1
        self._current: dict[str, int] = {}
        self._least: dict[str, tuple[int, ...]] = {}

    def see(self, lags: Mapping[str, int | None], now_ms: int) -> None:
        """Take in the lags of all groups with members; None if a lag is not known."""
        period = now_ms // PERIOD_MS
        if period != self._period:
            is_next = period == self._period + 1
            self._least = {
                group_id: (*(self._least.get(group_id, ()) if is_next else ()), least)[-PERIODS - 1 :]
                for group_id, least in self._current.items()
                if group_id in lags
            }
            self._current = {}
            self._period = period
        for group_id, lag in lags.items():
            if lag is not None:
                self._current[group_id] = min(lag, self._current.get(group_id, lag))

    def growing(self) -> dict[str, tuple[int, int]]:
        """Return the groups whose lag grows: the least lag of the period before it did, which may have been
        seen in part, and of the last one, which ended a moment ago."""
        return {
            group_id: (least[0], least[-1])
            for group_id, least in self._least.items()
            if len(least) > PERIODS and all(a < b for a, b in pairwise(least))
        }
