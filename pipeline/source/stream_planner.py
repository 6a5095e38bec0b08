"""A streaming query's offsets, on the driver: where it starts, how far the next micro-batch goes.

The first micro-batch only pins the start: it goes from `unresolved_start` to the resolved offsets and reads
nothing. Spark writes its end to the checkpoint before it runs, so a restart finds the same start, whatever
"latest" means by then. Every later one goes from where the last one ended towards the logs' ends, as far as
rates allow.

A leader epoch is remembered for each end seen. When it changes, the new leader is asked where the old epoch
ended: below what was read already, the log was truncated and grew again, which offsets alone can't show
(KIP-101, KIP-320).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from pipeline.client.values import EpochEnd, FoundOffset, PartitionRange, TopicPartition
from pipeline.source.errors import HOW_TO_SKIP
from pipeline.source.offset_json import Offsets, offsets_from_json, offsets_to_json
from pipeline.source.offsets import (
    backlog,
    is_unresolved,
    raise_losses,
    ranges_between,
    unresolved_start,
)
from pipeline.source.options import SourceOptions
from pipeline.source.planning import TriggerClock, limit_rate, plan_tasks
from pipeline.source.positions import Edge, Position

_log = logging.getLogger(__name__)

OffsetJson = dict[str, dict[str, int]]


class Cluster(Protocol):
    """What of SourceCluster a planner asks."""

    def partitions(
        self, *, must_exist: bool, known: Collection[TopicPartition] = ()
    ) -> list[TopicPartition]: ...

    def ends(self, partitions: list[TopicPartition], edge: Edge) -> dict[TopicPartition, FoundOffset]: ...

    def resolve(
        self, position: Position, partitions: list[TopicPartition], *, latest: Offsets | None = None
    ) -> Offsets: ...

    def epoch_ends(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]: ...


class StreamPlanner:
    """One query's, for as long as it runs."""

    def __init__(self, options: SourceOptions, cluster: Cluster, clock_ms: Callable[[], int]) -> None:
        self._options = options
        self._cluster = cluster
        self._clock_ms = clock_ms
        self._trigger = TriggerClock()
        self._frozen: Offsets | None = None
        self._epochs: dict[TopicPartition, int] = {}
        self._seen: Offsets | None = None

    def initial(self) -> dict[str, object]:
        """The offset before the first micro-batch."""
        return unresolved_start(self._options.starting)

    def freeze(self) -> None:
        """Trigger.AvailableNow: from now on the logs end where they end now."""
        partitions = self._cluster.partitions(must_exist=False)
        self._frozen = self._ends(partitions)

    def next_end(self, start: object, *, is_limited: bool) -> dict[str, object] | OffsetJson:
        """Where the micro-batch that begins at `start` ends; `start` itself if there is nothing to do yet.

        `is_limited`: whether rate options count; a trigger that takes all there is does not heed them.
        Raises DataLossError, InvalidOption, or the client's errors.
        """
        if is_unresolved(start):
            partitions = self._cluster.partitions(must_exist=True)
            pinned = self._cluster.resolve(self._options.starting, partitions, latest=self._frozen)
            self._ends(partitions)
            return offsets_to_json(pinned)
        current = offsets_from_json(start)
        partitions = self._cluster.partitions(must_exist=False, known=current.keys())
        latest = self._ends(partitions, after=current)
        goal = latest if self._frozen is None else _within_frozen(current, latest, self._frozen)
        self._report(ranges_between(current, goal).losses)
        if is_limited:
            goal = self._limited(current, goal)
        if backlog(current, goal):
            self._trigger = TriggerClock(self._clock_ms())
        return offsets_to_json(goal)

    def latest_seen(self) -> OffsetJson | None:
        """The logs' ends as the last micro-batch was planned, for people to see the lag."""
        return None if self._seen is None else offsets_to_json(self._seen)

    # --- ends -----------------------------------------------------------------------------------------

    def _ends(self, partitions: list[TopicPartition], *, after: Mapping[TopicPartition, int] = {}) -> Offsets:
        """The logs' ends now, once it is known that what was read before `after` is still in them."""
        found = self._cluster.ends(partitions, Edge.LATEST)
        if self._options.epoch_check:
            self._check_epochs(after, found)
        self._epochs = {where: one.leader_epoch for where, one in found.items()}
        self._seen = {where: one.offset for where, one in found.items()}
        return dict(self._seen)

    def _check_epochs(
        self, read_until: Mapping[TopicPartition, int], found: Mapping[TopicPartition, FoundOffset]
    ) -> None:
        changed = {
            where: epoch
            for where, epoch in self._epochs.items()
            if epoch >= 0
            and where in read_until
            and where in found
            and found[where].leader_epoch not in (epoch, -1)
        }
        if not changed:
            return
        ends = self._cluster.epoch_ends(changed)
        self._report(
            f"{where} was read up to offset {read_until[where]}, but leader epoch {epoch} ended at offset "
            f"{ends[where].end_offset}: the log was truncated"
            for where, epoch in sorted(changed.items())
            if 0 <= ends[where].end_offset < read_until[where]
        )

    def _report(self, losses: Iterable[str]) -> None:
        told = list(losses)
        if self._options.fail_on_data_loss:
            raise_losses(told, advice=HOW_TO_SKIP)
        for loss in told:
            _log.warning("%s; failOnDataLoss is false", loss)

    # --- rates ----------------------------------------------------------------------------------------

    def _limited(self, current: Offsets, goal: Offsets) -> Offsets:
        options = self._options
        least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
        if (
            least is not None
            and self._frozen is None
            and self._trigger.should_wait(
                current,
                goal,
                now_ms=self._clock_ms(),
                min_offsets=least,
                max_delay_ms=options.max_trigger_delay_ms,
            )
        ):
            return current
        return goal if most is None else limit_rate(current, goal, max_offsets=most)


def _within_frozen(current: Offsets, latest: Offsets, frozen: Offsets) -> Offsets:
    """The frozen ends, as far as the logs still reach them. Partitions that came later wait for the next
    run; one that was read before and is not frozen stays where it is."""
    return {
        where: min(frozen.get(where, current.get(where, end)), end)
        for where, end in latest.items()
        if where in frozen or where in current
    }


def plan_between(options: SourceOptions, start: object, end: object) -> list[tuple[PartitionRange, ...]]:
    """A micro-batch's tasks, from its two offsets and the options alone. Raises DataLossError."""
    if is_unresolved(start):
        return []
    found = ranges_between(offsets_from_json(start), offsets_from_json(end))
    if options.fail_on_data_loss:
        raise_losses(found.losses, advice=HOW_TO_SKIP)
    return plan_tasks(found.ranges, options.plan)
