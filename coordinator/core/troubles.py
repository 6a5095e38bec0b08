"""Groups that an operator should look at: lag that grows, groups that never settle, and transactions that
leave their offsets open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.core.groups.figures import GroupFigures
from coordinator.core.lag_watch import FAST, SLOW, LagWatch, TotalLag
from springtide.contract.groups import GROUP_ID_CHARS_MAX, TROUBLES_TOLD_MAX, GroupTrouble

UNSETTLED_MS: Final = 600_000
"""A group that has not been stable for a minute on end for so long is told."""
OFFSETS_PENDING_MS: Final = 900_000
"""The offsets of an open transaction that are pending for so long are told: Kafka's longest transaction."""
_MINUTE_MS: Final = 60_000
_ID_CHARS: Final = 200
"""Of an id, in a sentence."""


class Troubles:
    """All groups of a process, as they were seen one look after the other."""

    def __init__(self) -> None:
        self._fast, self._slow = LagWatch(FAST), LagWatch(SLOW)
        #: Groups that fall behind, with the lag that each had before.
        self._behind: dict[str, int] = {}
        self.found: tuple[GroupTrouble, ...] = ()

    def see(self, groups: Sequence[GroupFigures], lags: Mapping[str, TotalLag | None]) -> None:
        """Take in all groups, and the lag of each that has members; None if it is not known."""
        self._fast.see(lags)
        self._slow.see(lags)
        growing = self._slow.growing() | self._fast.growing()
        behind = {
            group_id: before for group_id, before in self._behind.items() if self._fast.has_grown(group_id)
        }
        for group_id, (before, _) in growing.items():
            behind[group_id] = min(before, behind.get(group_id, before))
        self._behind = behind
        found = [_of_lag(group_id, behind[group_id], lags.get(group_id)) for group_id in sorted(behind)]
        found += [
            _unsettled(group)
            for group in groups
            if group.unsettled_ms is not None and group.unsettled_ms >= UNSETTLED_MS
        ]
        found += [
            _offsets_pending(group.group_id, group.pending_ms)
            for group in groups
            if group.pending_ms is not None and group.pending_ms >= OFFSETS_PENDING_MS
        ]
        found += [_lacks_target(group.group_id) for group in groups if group.lacks_target]
        told = [trouble for trouble in found if len(trouble.group_id) <= GROUP_ID_CHARS_MAX]
        self.found = tuple(told[:TROUBLES_TOLD_MAX])


def _of_lag(group_id: str, before: int, now: TotalLag | None) -> GroupTrouble:
    after = "an unknown number of" if now is None else now.records
    detail = (
        f"group {group_id[:_ID_CHARS]} falls behind: its lag has grown from {before} to {after} records. Its "
        "members read less than is produced: find what slows them, or add members, up to one for each "
        "partition"
    )
    return GroupTrouble(group_id=group_id, code="lag_grows", detail=detail)


def _unsettled(group: GroupFigures) -> GroupTrouble:
    minutes = UNSETTLED_MS // _MINUTE_MS
    is_classic = group.state is None
    harm = "its members read nothing" if is_classic else "partitions that move are read by no member"
    detail = (
        f"group {group.group_id[:_ID_CHARS]} does not settle: for {minutes} minutes it has not been stable "
        f"for one minute on end, and while it rebalances {harm}. `springtide groups show` names "
        "the cause of the last rebalance: often a member that takes longer than its max.poll.interval.ms for "
        "what it polled, or that restarts again and again"
    )
    return GroupTrouble(group_id=group.group_id, code="unsettled", detail=detail)


def _offsets_pending(group_id: str, pending_ms: int) -> GroupTrouble:
    detail = (
        f"a transaction has committed offsets of group {group_id[:_ID_CHARS]} and has not ended for "
        f"{pending_ms // _MINUTE_MS} minutes: a member that gets their partitions waits for it. `springtide "
        "transactions list` names the open ones, and `springtide transactions abort` ends one"
    )
    return GroupTrouble(group_id=group_id, code="offsets_pending", detail=detail)


def _lacks_target(group_id: str) -> GroupTrouble:
    detail = (
        f"group {group_id[:_ID_CHARS]} can't be assigned anew: the process that works its large assignment "
        "out ended twice, or took a minute. Its members go on with what they have; members that came since "
        "get nothing. The coordinator tries again each minute: see its log for the cause, often too little "
        "memory"
    )
    return GroupTrouble(group_id=group_id, code="not_assigned", detail=detail)
