"""What a coordinator tells the controller of its groups, with its heartbeats: for people. Nothing is decided
by it, and neither side stores it: a new controller is told again, a new coordinator knows what it saw."""

from __future__ import annotations

from typing import Final

import msgspec

#: In one heartbeat. A coordinator with more to tell goes on with its next one.
REBALANCES_TOLD_MAX: Final = 100
#: In one heartbeat, of all that a coordinator has.
TROUBLES_TOLD_MAX: Final = 50
#: In one heartbeat. A coordinator with more to tell goes on with its next one.
LAGS_TOLD_MAX: Final = 200
#: Groups with longer ids are not told of: Kafka takes ids of 32 KiB.
GROUP_ID_CHARS_MAX: Final = 1_000


class GroupRebalance(msgspec.Struct, frozen=True, kw_only=True):
    """The last rebalance of a group. Times are Unix milliseconds.

    generation_id: the group's, as of this report. began_ms: -1: not known. ended_ms: when the assignments
    were made, or the last member left; -1: it is under way.
    reason: what began it; empty: not known, because the coordinator has taken the group over since.
    """

    group_id: str
    generation_id: int
    began_ms: int
    ended_ms: int
    reason: str


class GroupTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A group that an operator should look at: an alarm. code: `lag_grows`, `unsettled`."""

    group_id: str
    code: str
    detail: str


class GroupLag(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far a group is behind. records: over all its partitions. ms: of the partition that is farthest
    behind in time. -1: not known, because no leader tells one of its logs' ends, or the group is gone."""

    group_id: str
    records: int = -1
    ms: int = -1


class GroupNews(msgspec.Struct, frozen=True, kw_only=True):
    """rebalances, lags: that this controller has not been told, at most REBALANCES_TOLD_MAX and
    LAGS_TOLD_MAX. troubles: all that there are now, at most TROUBLES_TOLD_MAX."""

    rebalances: tuple[GroupRebalance, ...] = ()
    troubles: tuple[GroupTrouble, ...] = ()
    lags: tuple[GroupLag, ...] = ()
