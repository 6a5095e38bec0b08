"""A look at all groups that this process serves, every few seconds: members, committed offsets, lag.

What was seen is what metrics tell, and what alarms go by. It is replaced as a whole, so that a thread may
write it down while the next look is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from coordinator.core.groups.figures import GroupFigures, figures_of
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.troubles import Troubles
from coordinator.shell.log_ends import PartitionEnds
from springtide.contract.groups import GroupTrouble
from springtide.node.clock import Clock
from springtide.node.status import escape
from springtide.wire.questions import Place

LOOK_MS: Final = 5_000
PARTITIONS_TOLD_MAX: Final = 50_000
"""Partitions of groups that metrics tell of one by one: two samples each, for all of them a quarter of a
second of a thread. Of the groups after them, in the order of their ids, there are only sums."""


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """groups: by id. ends: of the partitions that they have committed offsets of."""

    groups: tuple[GroupFigures, ...] = ()
    ends: dict[Place, int] | None = None

    def lag(self, place: Place, offset: int) -> int | None:
        """Return the records from a committed offset to the log's end; None if no leader told it."""
        end = (self.ends or {}).get(place)
        return None if end is None else max(0, end - offset)

    def total(self, group: GroupFigures) -> int | None:
        """Return the records that a group has yet to read; None if one of its lags is not known, or if it has
        no offsets."""
        lags = [self.lag(place, offset) for place, offset in group.offsets.items()]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if known and len(known) == len(lags) else None


class GroupWatch:
    """machines: of the shards that are served now."""

    def __init__(self, machines: Callable[[], Sequence[GroupMachine]], log_ends: PartitionEnds, clock: Clock):
        self._machines = machines
        self._log_ends = log_ends
        self._clock = clock
        self._troubles = Troubles()
        self.seen = SeenGroups()

    @property
    def troubles(self) -> tuple[GroupTrouble, ...]:
        return self._troubles.found

    async def run(self) -> None:
        while True:
            await self.look()
            await self._clock.sleep_ms(LOOK_MS)

    async def look(self) -> None:
        """See all groups. Ends are asked after offsets are read, so that a lag is not below what it was."""
        groups: list[GroupFigures] = []
        for machine in self._machines():
            groups += figures_of(machine.registry, self._clock.mono_ms())
            await trio.lowlevel.checkpoint()  # a shard is a millisecond
        # A dict, not a set: the order of a set of strings differs from process to process.
        ends = await self._log_ends.ask(dict.fromkeys(place for group in groups for place in group.offsets))
        seen = self.seen = SeenGroups(tuple(sorted(groups, key=lambda group: group.group_id)), ends)
        lags = {group.group_id: seen.total(group) for group in seen.groups if group.members}
        self._troubles.see(seen.groups, lags, self._clock.mono_ms())


_FAMILIES: Final = {
    "kafka_consumergroup_members": "Members of a group",
    "kafka_consumergroup_current_offset": "Committed offset of a group",
    "kafka_consumergroup_lag": "Records from the committed offset to the end; only where the leader answered",
    "kafka_consumergroup_current_offset_sum": "Committed offsets of a group in a topic",
    "kafka_consumergroup_lag_sum": "Records that a group has yet to read of a topic",
    "springtide_groups_without_partitions": "Groups of which there are only sums, because there are too many",
}


def write_groups(seen: SeenGroups) -> bytes:
    """Return the metrics of groups, under kafka_exporter's names, as Prometheus reads them. Written line by
    line, because a sample of prometheus_client costs eight times as much."""
    lines: dict[str, list[str]] = {family: [] for family in _FAMILIES}
    members, offsets, lags, offset_sums, lag_sums, without = lines.values()
    told = without_partitions = 0
    for group in seen.groups:
        name = escape(group.group_id)
        members.append(f'{{consumergroup="{name}"}} {group.members}')
        told += len(group.offsets)
        is_told = told <= PARTITIONS_TOLD_MAX
        without_partitions += not is_told
        by_topic: dict[str, tuple[int, int | None]] = {}
        for place, offset in group.offsets.items():
            topic, partition = place
            lag = seen.lag(place, offset)
            offset_sum, lag_sum = by_topic.get(topic, (0, None))
            by_topic[topic] = offset_sum + offset, lag_sum if lag is None else (lag_sum or 0) + lag
            if is_told:
                labels = f'{{consumergroup="{name}",partition="{partition}",topic="{escape(topic)}"}}'
                offsets.append(f"{labels} {offset}")
                if lag is not None:
                    lags.append(f"{labels} {lag}")
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
