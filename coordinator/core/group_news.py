"""Which rebalances the controller has yet to hear of: those that changed since they were told, and all of
them once another controller answers. Told a few at a time, again until they are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.registry import Registry
from springtide.contract.groups import (
    GROUP_ID_CHARS_MAX,
    REBALANCES_TOLD_MAX,
    GroupLag,
    GroupNews,
    GroupRebalance,
    GroupTrouble,
)
from springtide.contract.session import HeartbeatResponse


class NewsOfGroups:
    """machines: of the shards that are served now. troubles: all that there are. lags: of the groups whose
    turn it is."""

    def __init__(
        self,
        machines: Callable[[], Sequence[GroupMachine]],
        troubles: Callable[[], tuple[GroupTrouble, ...]] = tuple,
        lags: Callable[[], tuple[GroupLag, ...]] = tuple,
    ) -> None:
        self._machines = machines
        self._troubles = troubles
        self._lags = lags
        self._untold: dict[str, GroupRebalance] = {}
        self._sent: tuple[GroupRebalance, ...] = ()
        self._controller_epoch = -1

    def take(self) -> GroupNews | None:
        """Return what the next heartbeat tells; None if that is nothing."""
        for machine in self._machines():
            news, machine.registry.news = machine.registry.news, {}
            self._note(machine.registry, news)
        self._sent = tuple(islice(self._untold.values(), REBALANCES_TOLD_MAX))
        told = GroupNews(rebalances=self._sent, troubles=self._troubles(), lags=self._lags())
        return told if told.rebalances or told.troubles or told.lags else None

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        """Take in the acknowledgement of the heartbeat that told what `take` returned last."""
        if response.controller_epoch != self._controller_epoch:
            self._controller_epoch = response.controller_epoch
            for machine in self._machines():
                self._note(machine.registry, machine.registry.live)
        for told in self._sent:
            if self._untold.get(told.group_id) is told:
                del self._untold[told.group_id]

    def _note(self, registry: Registry, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            group = registry.live.get(group_id)
            if group is not None and group.last_rebalance and len(group_id) <= GROUP_ID_CHARS_MAX:
                self._untold[group_id] = group.last_rebalance
