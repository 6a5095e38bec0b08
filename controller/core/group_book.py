"""What coordinators have told of their groups' rebalances. In memory, while this controller is active."""

from __future__ import annotations

from typing import Final

from springtide.contract.groups import GroupNews, GroupRebalance

#: Of one cluster; those that were told longest ago are forgotten first. Some hundred bytes each.
GROUPS_MAX: Final = 20_000


class GroupBook:
    __slots__ = ("_groups_max", "_rebalances")

    def __init__(self, *, groups_max: int = GROUPS_MAX) -> None:
        self._groups_max = groups_max
        self._rebalances: dict[str, GroupRebalance] = {}

    def note(self, news: GroupNews) -> None:
        """Take news in. A coordinator that has taken a group over knows no reason: the one that is known of
        the same generation stays."""
        for told in news.rebalances:
            known = self._rebalances.pop(told.group_id, None)
            is_known = known is not None and known.generation_id == told.generation_id and known.ended_ms >= 0
            kept = known if known is not None and is_known and not told.reason else told
            self._rebalances[told.group_id] = kept
            if len(self._rebalances) > self._groups_max:
                del self._rebalances[next(iter(self._rebalances))]

    def rebalance(self, group_id: str) -> GroupRebalance | None:
        return self._rebalances.get(group_id)
