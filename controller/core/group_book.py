"""What coordinators have told of their groups' rebalances. In memory, while this controller is active."""

from __future__ import annotations

from math import inf
from typing import Final

from springtide.contract.groups import GroupNews, GroupRebalance

#: Of one cluster; those that were told longest ago are forgotten first.
GROUPS_MAX: Final = 20_000
#: Of one group.
REBALANCES_MAX: Final = 10
#: Rebalances, causes, pairs of members and partitions of one cluster together; some 150 bytes each.
UNITS_MAX: Final = 300_000

_NOT_KNOWN: Final = -1


class GroupBook:
    __slots__ = ("_groups_max", "_rebalances", "_units", "_units_max")

    def __init__(self, *, groups_max: int = GROUPS_MAX, units_max: int = UNITS_MAX) -> None:
        self._groups_max = groups_max
        self._units_max = units_max
        self._units = 0
        #: By group, and by when each began; the oldest first.
        self._rebalances: dict[str, dict[int, GroupRebalance]] = {}

    def note(self, news: GroupNews) -> None:
        for told in news.rebalances:
            known = self._rebalances.pop(told.group_id, {})
            self._units -= sum(map(_units_of, known.values()))
            kept = _with(known, told)
            self._rebalances[told.group_id] = kept
            self._units += sum(map(_units_of, kept.values()))
            while len(self._rebalances) > self._groups_max or self._units > self._units_max:
                gone = self._rebalances.pop(next(iter(self._rebalances)))
                self._units -= sum(map(_units_of, gone.values()))

    def rebalances(self, group_id: str) -> tuple[GroupRebalance, ...]:
        """Return all that are known, the newest first."""
        return tuple(reversed(self._rebalances.get(group_id, {}).values()))


def _with(known: dict[int, GroupRebalance], told: GroupRebalance) -> dict[int, GroupRebalance]:
    """Return the known rebalances of a group with one that was told. A coordinator that has taken the group
    over knows no cause: a rebalance that is known of the same generation stays. One that was under way with
    another coordinator has ended with that one."""
    last = next(reversed(known.values()), None)
    is_taken_over = told.began_ms == _NOT_KNOWN
    if is_taken_over and last is not None:
        if last.generation_id == told.generation_id and last.ended_ms != _NOT_KNOWN:
            return known
        known = {began_ms: one for began_ms, one in known.items() if one.ended_ms != _NOT_KNOWN}
    merged = sorted({**known, told.began_ms: told}.values(), key=_place_of)
    return {one.began_ms: one for one in merged[-REBALANCES_MAX:]}


def _place_of(told: GroupRebalance) -> tuple[float, int]:
    """Return where a rebalance stands among those of its group. One that was taken over was over before the
    next one began."""
    if told.began_ms != _NOT_KNOWN:
        return told.began_ms, 1
    return inf if told.ended_ms == _NOT_KNOWN else told.ended_ms, 0


def _units_of(told: GroupRebalance) -> int:
    return 1 + len(told.causes) + len(told.moves) + sum(len(moved.partitions) for moved in told.moves)
