"""Which rebalances and lags the controller has yet to hear of: those that changed since they were told, and
all of them once another controller answers. Told a few at a time, again until they are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.registry import Registry
from springtide.contract.groups import (
    GROUP_ID_CHARS_MAX,
    LAGS_TOLD_MAX,
    REBALANCES_TOLD_MAX,
    GroupLag,
    GroupNews,
    GroupRebalance,
    GroupTrouble,
)
from springtide.contract.session import HeartbeatResponse


class NewsOfGroups:
    """machines: of the shards that are served now. troubles: all that there are. lags: of all groups whose
    lag is known, replaced as a whole."""

    def __init__(
        self,
        machines: Callable[[], Sequence[GroupMachine]],
        troubles: Callable[[], tuple[GroupTrouble, ...]] = tuple,
        lags: Callable[[], Mapping[str, GroupLag]] = dict,
    ) -> None:
        self._machines = machines
        self._troubles = troubles
        self._lags_now = lags
        #: The last that was looked at.
        self._lags: Mapping[str, GroupLag] = {}
        self._untold_lags: dict[str, GroupLag] = {}
        self._sent_lags: tuple[GroupLag, ...] = ()
        self._untold: dict[str, GroupRebalance] = {}
        self._sent: tuple[GroupRebalance, ...] = ()
        self._controller_epoch = -1

    def take(self) -> GroupNews | None:
        """Return what the next heartbeat tells; None if that is nothing."""
        for machine in self._machines():
            news, machine.registry.news = machine.registry.news, {}
            self._note(machine.registry, news)
        self._sent = tuple(islice(self._untold.values(), REBALANCES_TOLD_MAX))
        self._note_lags()
        self._sent_lags = tuple(islice(self._untold_lags.values(), LAGS_TOLD_MAX))
        told = GroupNews(rebalances=self._sent, troubles=self._troubles(), lags=self._sent_lags)
        return told if told.rebalances or told.troubles or told.lags else None

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        """Take in the acknowledgement of the heartbeat that told what `take` returned last."""
        if response.controller_epoch != self._controller_epoch:
            self._controller_epoch = response.controller_epoch
            for machine in self._machines():
                self._note(machine.registry, machine.registry.live)
            self._untold_lags |= self._lags
        for told in self._sent:
            if self._untold.get(told.group_id) is told:
                del self._untold[told.group_id]
        for lag in self._sent_lags:
            if self._untold_lags.get(lag.group_id) is lag:
                del self._untold_lags[lag.group_id]

    def _note(self, registry: Registry, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            group = registry.live.get(group_id)
            if group is not None and group.last_rebalance and len(group_id) <= GROUP_ID_CHARS_MAX:
                self._untold[group_id] = group.last_rebalance

    def _note_lags(self) -> None:
        """Note what a look has changed. A lag that is not known any more is told as such, once."""
        before, now = self._lags, self._lags_now()
        if now is before:
            return
        self._lags = now
        self._untold_lags |= {
            group_id: GroupLag(group_id=group_id) for group_id in before if group_id not in now
        }
        for group_id, lag in now.items():
            if before.get(group_id) != lag:
                self._untold_lags[group_id] = lag
