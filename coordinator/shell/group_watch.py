"""A look at all groups that this process serves, every few seconds: members, committed offsets, lag.

What was seen is what metrics tell, and what alarms go by. It is replaced as a whole, so that a thread may
write it down while the next look is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from coordinator.core.groups.figures import GroupFigures, figures_of
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.lag_news import LagNews
from coordinator.core.lag_watch import TotalLag
from coordinator.core.lags import Lag, Lags
from coordinator.core.troubles import Troubles
from coordinator.shell.log_ends import PartitionEnds
from springtide.contract.groups import GroupLag, GroupTrouble
from springtide.node.clock import Clock
from springtide.node.status import escape
from springtide.wire.questions import Place

LOOK_MS: Final = 5_000
PARTITIONS_PER_TURN: Final = 1_000
"""A few milliseconds of the loop."""
PARTITIONS_TOLD_MAX: Final = 50_000
"""Partitions of groups that metrics tell of one by one: three samples each, of which two take a quarter of a
second of a thread for all of them. Of the groups after them, in the order of their ids, there are only
sums."""


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """groups: by id. lags: by group, of the partitions whose leader told the end. rebalances: of groups of
    the `consumer` protocol, since the process began; rebalances_per_s: since the look before."""

    groups: tuple[GroupFigures, ...] = ()
    lags: Mapping[str, Mapping[Place, Lag]] = field(default_factory=dict)
    rebalances: int = 0
    rebalances_per_s: float = 0.0

    def of(self, group: GroupFigures) -> Mapping[Place, Lag]:
        return self.lags.get(group.group_id, {})


class GroupWatch:
    """machines: of the shards that are served now."""

    def __init__(self, machines: Callable[[], Sequence[GroupMachine]], log_ends: PartitionEnds, clock: Clock):
        self._machines = machines
        self._log_ends = log_ends
        self._clock = clock
        self._lags = Lags()
        self._troubles = Troubles()
        self._news = LagNews()
        self._looked_ms: int | None = None
        self.seen = SeenGroups()

    @property
    def troubles(self) -> tuple[GroupTrouble, ...]:
        return self._troubles.found

    def take_lags(self) -> tuple[GroupLag, ...]:
        """Return what the next heartbeat tells of lags."""
        return self._news.take(self._clock.mono_ms())

    async def run(self) -> None:
        while True:
            await self.look()
            await self._clock.sleep_ms(LOOK_MS)

    async def look(self) -> None:
        """See all groups. Ends are asked after offsets are read, so that a lag is not below what it was."""
        groups: list[GroupFigures] = []
        rebalances = 0
        for machine in self._machines():
            history = machine.registry.history
            rebalances, history.consumers_begun = rebalances + history.consumers_begun, 0
            groups += figures_of(machine.registry, self._clock.mono_ms(), self._clock.wall_ms())
            await trio.lowlevel.checkpoint()  # a shard is a millisecond
        # A dict, not a set: the order of a set of strings differs from process to process.
        places = dict.fromkeys(place for group in groups for place in group.offsets)
        ends = await self._log_ends.ask(places)
        seen_ms = self._clock.mono_ms()
        self._lags.see_ends(ends, seen_ms)
        wall_ms, seen_since = self._clock.wall_ms(), 0
        lags: dict[str, Mapping[Place, Lag]] = {}
        for group in groups:
            lags[group.group_id] = self._lags.see_group(group, ends, wall_ms)
            seen_since += len(group.offsets)
            if seen_since > PARTITIONS_PER_TURN:
                seen_since = 0
                await trio.lowlevel.checkpoint()
        self._lags.keep(lags, places)
        since_ms = seen_ms if self._looked_ms is None else self._looked_ms
        self.seen = SeenGroups(
            tuple(sorted(groups, key=lambda group: group.group_id)),
            lags,
            self.seen.rebalances + rebalances,
            1_000 * rebalances / max(1, seen_ms - since_ms) if seen_ms > since_ms else 0.0,
        )
        self._looked_ms = seen_ms
        self._news.see(self.seen.groups, lags, seen_ms)
        totals = {group.group_id: _total(group, self.seen, ends) for group in groups if group.members}
        self._troubles.see(self.seen.groups, totals)


def _total(group: GroupFigures, seen: SeenGroups, ends: Mapping[Place, int]) -> TotalLag | None:
    """Return the records that a group has yet to read; None if one of its lags is not known or not settled,
    or if it has no offsets."""
    lags = seen.of(group)
    if not lags or len(lags) < len(group.offsets) or not all(lag.is_settled for lag in lags.values()):
        return None
    return TotalLag(sum(lag.records for lag in lags.values()), sum(ends[place] for place in lags))


_FAMILIES: Final = {
    "kafka_consumergroup_members": "Members of a group",
    "kafka_consumergroup_current_offset": "Committed offset of a group",
    "kafka_consumergroup_lag": "Records that were left at the newest commit, or are now if it is late",
    "kafka_consumergroup_lag_seconds": "How long ago the log's end was where that lag begins",
    "kafka_consumergroup_current_offset_sum": "Committed offsets of a group in a topic",
    "kafka_consumergroup_lag_sum": "Records that a group has yet to read of a topic",
    "springtide_groups_without_partitions": "Groups of which there are only sums, because there are too many",
}


def write_groups(seen: SeenGroups) -> bytes:
    """Return the metrics of groups, under kafka_exporter's names, as Prometheus reads them. Written line by
    line, because a sample of prometheus_client costs eight times as much."""
    lines: dict[str, list[str]] = {family: [] for family in _FAMILIES}
    members, offsets, lags, lag_seconds, offset_sums, lag_sums, without = lines.values()
    told = without_partitions = 0
    for group in seen.groups:
        name = escape(group.group_id)
        members.append(f'{{consumergroup="{name}"}} {group.members}')
        told += len(group.offsets)
        is_told = told <= PARTITIONS_TOLD_MAX
        without_partitions += not is_told
        by_topic: dict[str, tuple[int, int | None]] = {}
        found_lags = seen.of(group)
        for place, committed in group.offsets.items():
            topic, partition = place
            lag = found_lags.get(place)
            offset_sum, lag_sum = by_topic.get(topic, (0, None))
            of_topic = lag_sum if lag is None else (lag_sum or 0) + lag.records
            by_topic[topic] = offset_sum + committed.offset, of_topic
            if is_told:
                labels = f'{{consumergroup="{name}",partition="{partition}",topic="{escape(topic)}"}}'
                offsets.append(f"{labels} {committed.offset}")
                if lag is not None:
                    lags.append(f"{labels} {lag.records}")
                    lag_seconds.append(f"{labels} {lag.ms / 1_000}")
        for topic, (offset_sum, lag_sum) in by_topic.items():
            labels = f'{{consumergroup="{name}",topic="{escape(topic)}"}}'
            offset_sums.append(f"{labels} {offset_sum}")
            if lag_sum is not None:
                lag_sums.append(f"{labels} {lag_sum}")
    without.append(f" {without_partitions}")
    page: list[str] = []
    for family, found in lines.items():
        page.append(f"# HELP {family} {_FAMILIES[family]}\n# TYPE {family} gauge\n")
        page += (f"{family}{line}\n" for line in found)
    return "".join(page).encode()
