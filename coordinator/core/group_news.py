"""Which rebalances the controller has yet to hear of: those that changed since they were told, and all of
them once another controller answers. Told a few at a time, again until they are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from coordinator.core.groups.history import NotedRebalance
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.registry import Registry
from coordinator.core.groups.telling import told_of
from springtide.contract.groups import (
    GROUP_ID_CHARS_MAX,
    REBALANCE_BYTES_TOLD_MAX,
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
        #: Each with its shard's registry, those that have waited longest first.
        self._untold: dict[NotedRebalance, Registry] = {}
        self._sent: tuple[NotedRebalance, ...] = ()
        self._controller_epoch = -1

    def take(self) -> GroupNews | None:
        """Return what the next heartbeat tells; None if that is nothing."""
        machines = self._machines()
        for machine in machines:
            history = machine.registry.history
            changed, history.changed = history.changed, {}
            self._note(machine.registry, changed)
        served = {id(machine.registry) for machine in machines}
        self._untold = {one: registry for one, registry in self._untold.items() if id(registry) in served}
        rebalances = self._take_rebalances()
        told = GroupNews(rebalances=rebalances, troubles=self._troubles(), lags=self._lags())
        return told if told.rebalances or told.troubles or told.lags else None

    def _take_rebalances(self) -> tuple[GroupRebalance, ...]:
        sent: list[NotedRebalance] = []
        told: list[GroupRebalance] = []
        size = 0
        for rebalance, registry in self._untold.items():
            one = told_of(registry, rebalance)
            size += len(msgspec.json.encode(one)) + 1
            if told and size > REBALANCE_BYTES_TOLD_MAX:
                break
            sent.append(rebalance)
            told.append(one)
            if len(told) == REBALANCES_TOLD_MAX:
                break
        self._sent = tuple(sent)
        return tuple(told)

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        """Take in the acknowledgement of the heartbeat that told what `take` returned last. What has changed
        since is told again: it is noted once more by then."""
        if response.controller_epoch != self._controller_epoch:
            self._controller_epoch = response.controller_epoch
            for machine in self._machines():
                self._note(machine.registry, machine.registry.history.all())
        for rebalance in self._sent:
            self._untold.pop(rebalance, None)
        self._sent = ()

    def _note(self, registry: Registry, rebalances: Iterable[NotedRebalance]) -> None:
        for rebalance in rebalances:
            if len(rebalance.group_id) <= GROUP_ID_CHARS_MAX:
                self._untold[rebalance] = registry
